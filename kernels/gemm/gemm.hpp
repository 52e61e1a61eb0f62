#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Sizes of a product for one rank.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  double model_share = 1;  ///< of the FLOPs, what is the model's: less where a vocabulary is padded
};

/// C[m,n] = op(A) op(B) + beta * C (+ bias[n] on every row), row-major, products accumulated in fp32.
/// fp8 inputs (GPUs from compute capability 8.9 on) come with a scale for each whole matrix: value = element * scale;
/// they need A as [m,k], B as [n,k], all sizes multiples of 16, a bf16 or fp32 output, and not e5m2 twice.
struct GemmArgs {
  using Shape = GemmShape;
  /// 2mnk, which are the model's, and a bias's mn, which are not; C is read too when it is added to.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static GemmArgs bind(Shape const& shape, Binding const& binding);

  void const* a = nullptr;     ///< [m,k], or [k,m] when transpose_a
  void const* b = nullptr;     ///< [k,n], or [n,k] when transpose_b
  void* c = nullptr;           ///< [m,n]
  void const* bias = nullptr;  ///< [n] of input_dtype (of output_dtype for fp8), or nullptr
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  ///< elements between rows as stored
  bool transpose_a = false, transpose_b = false;
  float beta = 0;                  ///< 0 overwrites (C may hold NaN), 1 adds
  Dtype input_dtype = Dtype::f32;  ///< of A, and of B unless b_dtype says otherwise
  Dtype output_dtype = Dtype::f32;
  Dtype b_dtype = Dtype::size_;    ///< fp8 only: the other format for B; size_: as A
  float const* scale_a = nullptr;  ///< on the device, fp8 only; nullptr: 1
  float const* scale_b = nullptr;
  Dtype dtype_of_b() const { return b_dtype == Dtype::size_ ? input_dtype : b_dtype; }
};

/// Rows are bounded by `m`, of which routing is expected to bring `expected_m`; each group has its own weights.
struct GroupedGemmShape {
  std::int64_t groups = 0, m = 0, n = 0, k = 0;
  bool transpose_b = false, weight_gradient = false;
  double expected_m = 0;
};

/// One product per group over rows that lie group after group: rows [offsets[g], offsets[g+1]) of A and C use B[g].
/// With `weight_gradient`, C[g] = A[rows of g]^T B[rows of g] instead (A [rows,m], B [rows,n], C [groups,m,n]).
struct GroupedGemmArgs {
  using Shape = GroupedGemmShape;
  /// 2mnk over the rows that are expected; the weights of all groups are read.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static GroupedGemmArgs bind(Shape const& shape, Binding const& binding);

  void const* a = nullptr;
  void const* b = nullptr;
  void* c = nullptr;
  std::int32_t const* offsets = nullptr;  ///< [groups + 1], on the host
  std::int64_t groups = 0, m = 0, n = 0, k = 0;
  bool transpose_b = false;  ///< B[g] is [n,k] when set, [k,n] otherwise
  bool weight_gradient = false;
  float beta = 0;
  Dtype input_dtype = Dtype::f32;
  Dtype output_dtype = Dtype::f32;
};

}  // namespace shardbench
