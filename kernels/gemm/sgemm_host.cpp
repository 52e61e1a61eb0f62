#include "kernels/gemm/sgemm_host.hpp"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "kernels/core/error.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench {
namespace {

/// An opened BLAS. It is opened at run time, because what OpenBLAS takes from the environment it takes while loading.
struct Blas {
  void* library = nullptr;
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_sgemv) sgemv = nullptr;
  std::string description;
};

template <class Function>
Function find(void* library, char const* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string blas_path() {
  char const* const chosen = std::getenv("SHARDBENCH_BLAS");
  return chosen != nullptr && *chosen != '\0' ? chosen : SHARDBENCH_BLAS_LIBRARY;
}

void* open_library(std::string const& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string const problem = library == nullptr ? dlerror() : "";
  // A binary that moved to another machine finds OpenBLAS by its run-time name there.
  if (library == nullptr && path == SHARDBENCH_BLAS_LIBRARY)
    library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  VALIDATE(library != nullptr, "the BLAS cannot be opened (" + problem + ")");
  return library;
}

std::string openblas_core(void* library) {
  auto const name = find<char* (*)()>(library, "openblas_get_corename");
  return name != nullptr ? name() : "";
}

#if defined(__x86_64__)
/// The OpenBLAS kernels for this CPU's instructions, empty below AVX2.
std::string best_openblas_core() {
  bool const avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512) return "SkylakeX";
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : "";
}
#else
std::string best_openblas_core() { return {}; }
#endif

bool uses_avx2(std::string const& core) {
  constexpr char const* names[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "Sapphirerapids"};
  return std::any_of(std::begin(names), std::end(names), [&](char const* name) { return core == name; });
}

/// OpenBLAS takes a CPU newer than itself for one of 2004 and is then four to six times slower: open it again with the
/// kernels that the CPU's instructions allow, unless the user chose some.
void* reopen_if_misled(void* library, std::string const& path) {
  std::string const core = openblas_core(library), best = best_openblas_core();
  if (core.empty() || best.empty() || uses_avx2(core) || std::getenv("OPENBLAS_CORETYPE") != nullptr) return library;
  dlclose(library);
  setenv("OPENBLAS_CORETYPE", best.c_str(), 1);
  return open_library(path);
}

std::string describe(void* library, std::string const& path) {
  if (auto const config = find<char* (*)()>(library, "openblas_get_config"); config != nullptr) {
    std::string const text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    return text.substr(0, text.find(' ', text.find(' ') + 1)) + ' ' + openblas_core(library);
  }
  if (auto const version = find<char const* (*)()>(library, "bli_info_get_version_str"); version != nullptr) {
    return std::string("BLIS ") + version();
  }
  return path.substr(path.rfind('/') + 1);
}

Blas load_blas() {
  char const* const core = std::getenv("OPENBLAS_CORETYPE");
  if (core != nullptr && *core == '\0') unsetenv("OPENBLAS_CORETYPE");  // OpenBLAS takes an empty name for a wrong one
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("BLIS_NUM_THREADS", "1", 0);
  }
  std::string const path = blas_path();
  Blas blas;
  blas.library = reopen_if_misled(open_library(path), path);
  blas.sgemm = find<decltype(&cblas_sgemm)>(blas.library, "cblas_sgemm");
  blas.sgemv = find<decltype(&cblas_sgemv)>(blas.library, "cblas_sgemv");
  VALIDATE(blas.sgemm != nullptr && blas.sgemv != nullptr, path + " has no C interface (cblas_sgemm, cblas_sgemv)");
  blas.description = describe(blas.library, path);
  return blas;
}

Blas const& blas() {
  static Blas const opened = load_blas();
  return opened;
}

int blas_int(std::int64_t size) {
  VALIDATE(size >= 0 && size <= std::numeric_limits<int>::max(),
           "matrix size " + std::to_string(size) + " does not fit the 32-bit interface of the BLAS");
  return static_cast<int>(size);
}

CBLAS_TRANSPOSE order(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

/// One row of C: sgemm would copy all of B for it, sgemv reads B once.
void one_row(std::int64_t n, std::int64_t k, float alpha, host::MatrixView a, host::MatrixView b, float beta,
             float* c) {
  if (beta == 0) std::fill_n(c, n, 0.0f);  // some libraries multiply by beta, and c may hold NaN
  bool const as_stored = b.transposed;     // c = op(B)^T a
  blas().sgemv(CblasRowMajor, order(!as_stored), blas_int(as_stored ? n : k), blas_int(as_stored ? k : n), alpha,
               b.data, blas_int(b.stride), a.data, blas_int(a.transposed ? a.stride : 1), beta == 0 ? 1.0f : beta, c,
               1);
}

void scale_rows(std::int64_t m, std::int64_t n, float beta, float* c, std::int64_t stride) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) c[i * stride + j] = beta == 0 ? 0.0f : beta * c[i * stride + j];
  }
}

}  // namespace

std::string blas_description() { return blas().description; }

namespace host {

void open_blas() { static_cast<void>(blas()); }

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, MatrixView a, MatrixView b, float beta,
           float* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // BLAS libraries differ in what they accept here
    scale_rows(m, n, beta, c, c_stride);
    return;
  }
  if (m == 1) {
    one_row(n, k, alpha, a, b, beta, c);
    return;
  }
  blas().sgemm(CblasRowMajor, order(a.transposed), order(b.transposed), blas_int(m), blas_int(n), blas_int(k), alpha,
               a.data, blas_int(a.stride), b.data, blas_int(b.stride), beta, c, blas_int(c_stride));
}

}  // namespace host
}  // namespace shardbench
