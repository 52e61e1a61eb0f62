#include "kernels/gemm/matmul_cuda.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>

#include "kernels/core/cuda/versions.hpp"

namespace shardbench {
namespace {

void cublas_check(cublasStatus_t status, char const* call, char const* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_error(file, line, std::string(call) + " failed (" + cublasLtGetStatusString(status) + ")");
}
#define CUBLAS_CHECK(call) cublas_check((call), #call, __FILE__, __LINE__)

/// Owns a cuBLASLt descriptor.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(destroy(handle)); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Everything that the choice of algorithm depends on.
using PlanKey = std::array<std::int64_t, 20>;

struct Plan {
  Description description;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

cudaDataType_t to_cuda(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return CUDA_R_32F;
    case Dtype::bf16:
      return CUDA_R_16BF;
    case Dtype::fp8:
      return CUDA_R_8F_E4M3;
    case Dtype::fp8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      throw Error("cuBLASLt products take fp32, bf16 or fp8, not " + std::string(to_string(dtype)));
  }
}

/// The largest power of two, up to 256, that divides an address: heuristics choose vector loads by it.
std::uint32_t alignment_of(void const* data) {
  auto const address = reinterpret_cast<std::uintptr_t>(data) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

PlanKey key_of(MatmulProblem const& p) {
  auto const code = [](Matrix const& m) {
    return std::int64_t{static_cast<int>(m.dtype)} * 2 + (m.transposed ? 1 : 0);
  };
  return {p.m,
          p.n,
          p.k,
          p.batch,
          p.a.row_stride,
          p.b.row_stride,
          p.c.row_stride,
          p.a.batch_stride,
          p.b.batch_stride,
          p.c.batch_stride,
          code(p.a),
          code(p.b),
          code(p.c),
          p.bias != nullptr,
          p.scale_a != nullptr,
          p.scale_b != nullptr,
          alignment_of(p.a.data),
          alignment_of(p.b.data),
          alignment_of(p.c.data),
          alignment_of(p.bias)};
}

/// cuBLASLt is column-major, so a row-major [rows, cols] is its [cols, rows], and C^T = B^T A^T is what it computes.
Layout make_layout(Matrix const& m, std::int64_t rows, std::int64_t cols, std::int64_t batch) {
  if (m.transposed) std::swap(rows, cols);
  cublasLtMatrixLayout_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&made, to_cuda(m.dtype), static_cast<std::uint64_t>(cols),
                                          static_cast<std::uint64_t>(rows), m.row_stride));
  Layout layout(made);
  if (batch > 1) {
    auto const count = static_cast<std::int32_t>(batch);
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_stride,
                                                  sizeof m.batch_stride));
  }
  return layout;
}

Description make_description(MatmulProblem const& p) {
  cublasLtMatmulDesc_t made = nullptr;
  // CUBLAS_COMPUTE_32F keeps fp32 products in fp32: no TF32 behind the user's back.
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Description description(made);
  cublasOperation_t const first = p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t const second = p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  if (p.bias) {
    cublasLtEpilogue_t const epilogue = CUBLASLT_EPILOGUE_BIAS;
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  }
  return description;
}

std::string describe(MatmulProblem const& p) {
  return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + " batch " +
         std::to_string(p.batch) + " " + std::string(to_string(p.a.dtype)) + " times " +
         std::string(to_string(p.b.dtype)) + " to " + std::string(to_string(p.c.dtype));
}

/// The handle, workspace and plans of one stream. Used by the thread that enqueues on it.
class Matmuls final : public StreamLibraryState {
 public:
  explicit Matmuls(Scratch workspace) : workspace_(workspace) {
    VALIDATE(workspace.data, "matrix products need a compute stream");
    CUBLAS_CHECK(cublasLtCreate(&handle_));
  }
  ~Matmuls() override { static_cast<void>(cublasLtDestroy(handle_)); }
  Matmuls(Matmuls const&) = delete;
  Matmuls& operator=(Matmuls const&) = delete;

  void run(cudaStream_t stream, MatmulProblem const& p) {
    Plan& plan = plan_for(p);
    set_pointers(plan, p);
    CUBLAS_CHECK(cublasLtMatmul(handle_, plan.description.get(), &p.alpha, p.b.data, plan.b.get(), p.a.data,
                                plan.a.get(), &p.beta, p.c.data, plan.c.get(), const_cast<void*>(p.c.data),
                                plan.c.get(), &plan.algorithm, workspace_.data, plan.workspace_bytes, stream));
  }

 private:
  /// Each call has its own; A and B change places, as everywhere with cuBLASLt.
  static void set_pointers(Plan& plan, MatmulProblem const& p) {
    auto const set = [&](cublasLtMatmulDescAttributes_t attribute, void const* pointer) {
      if (!pointer) return;
      CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(plan.description.get(), attribute, &pointer, sizeof pointer));
    };
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_a);
  }

  static void validate_fp8(MatmulProblem const& p) {
    bool const any = is_fp8(p.a.dtype) || is_fp8(p.b.dtype);
    VALIDATE(any || (!p.scale_a && !p.scale_b), "only fp8 products take scales");
    if (!any) return;
    VALIDATE(is_fp8(p.a.dtype) && is_fp8(p.b.dtype), "fp8 products need both inputs in fp8");
    VALIDATE(!p.a.transposed && p.b.transposed,
             "fp8 products need A as [m,k] and B as [n,k] (cuBLASLt has no other layout)");
    VALIDATE(p.a.dtype == Dtype::fp8 || p.b.dtype == Dtype::fp8, "cuBLASLt has no product of two e5m2 matrices");
    VALIDATE(p.m % 16 == 0 && p.n % 16 == 0 && p.k % 16 == 0,
             "fp8 products need sizes in multiples of 16, not " + describe(p));
  }

  Plan& plan_for(MatmulProblem const& p) {
    PlanKey const key = key_of(p);
    if (auto const found = plans_.find(key); found != plans_.end()) return found->second;
    // Routed tokens give ever new shapes; dropping all plans now and then bounds the memory.
    constexpr std::size_t most_plans = 4096;
    if (plans_.size() >= most_plans) plans_.clear();
    return plans_.emplace(key, make_plan(p)).first->second;
  }

  Preference make_preference(MatmulProblem const& p) const {
    cublasLtMatmulPreference_t made = nullptr;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
    Preference preference(made);
    auto const set = [made](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_.bytes});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
    return preference;
  }

  Plan make_plan(MatmulProblem const& p) const {
    validate_fp8(p);
    Plan plan{make_description(p), make_layout(p.a, p.m, p.k, p.batch), make_layout(p.b, p.k, p.n, p.batch),
              make_layout(p.c, p.m, p.n, p.batch)};
    set_pointers(plan, p);
    Preference const preference = make_preference(p);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    cublasStatus_t const status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                                       plan.c.get(), preference.get(), 1, &result, &found);
    VALIDATE(status == CUBLAS_STATUS_SUCCESS && found > 0,
             "cuBLASLt has no algorithm for " + describe(p) + " on this GPU (" + cublasLtGetStatusString(status) + ")");
    plan.algorithm = result.algo;
    plan.workspace_bytes = result.workspaceSize;
    return plan;
  }

  Scratch workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<PlanKey, Plan> plans_;
};

}  // namespace

void matmul(CudaStream& stream, MatmulProblem const& problem) {
  if (!stream.library_state) stream.library_state = std::make_unique<Matmuls>(stream.workspace());
  static_cast<Matmuls&>(*stream.library_state).run(stream.get(), problem);
}

std::string cublas_version() {
  std::size_t const version = cublasLtGetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace shardbench
