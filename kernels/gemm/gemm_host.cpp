#include <algorithm>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/gemm/group_math.hpp"
#include "kernels/gemm/sgemm_host.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

// A tile of A, B and C in fp32 is 1 + 2 + 2 MiB: it stays in the second-level cache, and each widened element then
// serves at least 512 products, so widening costs a few percent.
constexpr std::int64_t tile_m = 512, tile_n = 1024, tile_k = 512;

/// Rows [row, row + rows) and columns [col, col + cols) of op(matrix) in fp32: in place, or widened into `scratch`.
template <class T>
MatrixView widen(T const* matrix, std::int64_t stride, bool transposed, std::int64_t row, std::int64_t rows,
                 std::int64_t col, std::int64_t cols, float* scratch) {
  if (transposed) {
    std::swap(row, col);
    std::swap(rows, cols);
  }
  T const* const first = matrix + row * stride + col;
  if constexpr (std::is_same_v<T, float>) {
    return {first, stride, transposed};
  } else {
    for (std::int64_t r = 0; r < rows; ++r) load_row(first + r * stride, scratch + r * cols, cols);
    return {scratch, cols, transposed};
  }
}

/// tile = beta * C + bias, or C's address itself when C is fp32; `*beta` becomes what the product must still apply.
template <class In, class Out>
class OutputTile {
 public:
  OutputTile(GemmArgs const& args, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
             float* scratch)
      : args_(args), row_(row), rows_(rows), col_(col), cols_(cols), beta_(args.beta) {
    if constexpr (std::is_same_v<Out, float>) {
      data_ = first();
      stride_ = args.ldc;
      if (args.bias == nullptr) return;
    } else {
      data_ = scratch;
      stride_ = cols;
      if (args.bias == nullptr && args.beta == 0) return;
    }
    fill();
    beta_ = 1;
  }
  float* data() const { return data_; }
  std::int64_t stride() const { return stride_; }
  float beta() const { return beta_; }
  /// Rounds the tile into C.
  void store() const {
    if constexpr (!std::is_same_v<Out, float>) {
      for (std::int64_t r = 0; r < rows_; ++r) store_row(data_ + r * stride_, first() + r * args_.ldc, cols_);
    }
  }

 private:
  Out* first() const { return static_cast<Out*>(args_.c) + row_ * args_.ldc + col_; }
  void fill() {
    auto const* const bias = static_cast<In const*>(args_.bias);
    for (std::int64_t r = 0; r < rows_; ++r) {
      float* const tile = data_ + r * stride_;
      Out const* const c = first() + r * args_.ldc;
      for (std::int64_t j = 0; j < cols_; ++j) {
        float const start = bias != nullptr ? to_float(bias[col_ + j]) : 0.0f;
        tile[j] = args_.beta == 0 ? start : args_.beta * to_float(c[j]) + start;
      }
    }
  }

  GemmArgs const& args_;
  std::int64_t row_, rows_, col_, cols_;
  float beta_;
  float* data_ = nullptr;
  std::int64_t stride_ = 0;
};

struct Tiles {
  std::int64_t m, n, k;
};

/// C in tiles; fp32 operands are used where they lie.
template <class In, class Out>
void gemm_tiled(GemmArgs const& args, Tiles tiles) {
  thread_local Workspace workspace;
  auto const* const a = static_cast<In const*>(args.a);
  auto const* const b = static_cast<In const*>(args.b);
  bool const in_place = std::is_same_v<In, float> && std::is_same_v<Out, float>;
  float* const scratch =
      in_place ? nullptr : workspace.floats(tiles.m * tiles.k + tiles.k * tiles.n + tiles.m * tiles.n);
  float* const a_scratch = scratch;
  float* const b_scratch = in_place ? nullptr : scratch + tiles.m * tiles.k;
  float* const c_scratch = in_place ? nullptr : b_scratch + tiles.k * tiles.n;
  for (std::int64_t j = 0; j < args.n; j += tiles.n) {
    std::int64_t const cols = std::min(tiles.n, args.n - j);
    for (std::int64_t i = 0; i < args.m; i += tiles.m) {
      std::int64_t const rows = std::min(tiles.m, args.m - i);
      OutputTile<In, Out> const tile(args, i, rows, j, cols, c_scratch);
      for (std::int64_t p = 0; p < std::max<std::int64_t>(args.k, 1); p += tiles.k) {
        std::int64_t const depth = std::min(tiles.k, args.k - p);
        sgemm(rows, cols, depth, 1.0f, widen(a, args.lda, args.transpose_a, i, rows, p, depth, a_scratch),
              widen(b, args.ldb, args.transpose_b, p, depth, j, cols, b_scratch), p == 0 ? tile.beta() : 1.0f,
              tile.data(), tile.stride());
      }
      tile.store();
    }
  }
}

}  // namespace

void gemm(GemmArgs const& args) {
  if (args.m == 0 || args.n == 0) return;
  with_storage(args.input_dtype, "gemm", [&]<class In>(In) {
    with_storage(args.output_dtype, "gemm", [&]<class Out>(Out) {
      if constexpr (std::is_same_v<In, float> && std::is_same_v<Out, float>) {
        gemm_tiled<In, Out>(args, {args.m, args.n, std::max<std::int64_t>(args.k, 1)});
      } else {
        gemm_tiled<In, Out>(args, {tile_m, tile_n, tile_k});
      }
    });
  });
}

void grouped_gemm(GroupedGemmArgs const& args) {
  for (std::int64_t g = 0; g < args.groups; ++g) gemm(group_product(args, g));
}

}  // namespace shardbench::host
