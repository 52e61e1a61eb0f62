#include "kernels/core/cuda/vec.hpp"
#include "kernels/gemm/matmul_cuda.hpp"

namespace shardbench {
namespace {

template <class T, class BiasT>
struct AddBias {
  T* c;
  BiasT const* bias;
  std::int64_t cols, row_stride;
  float beta;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const col = i % cols;
    T* const element = c + i / cols * row_stride + col;
    float const kept = beta == 0 ? 0.0f : beta * to_float(*element);
    *element = from_float<T>(kept + (bias ? to_float(bias[col]) : 0.0f));
  }
};

}  // namespace

void add_bias(CudaStream& stream, Matrix const& c, std::int64_t rows, std::int64_t cols, float beta, void const* bias,
              Dtype bias_dtype) {
  declare_access(stream.native(), {writes(c.data, span_bytes(rows, cols, c.row_stride, bytes_of(c.dtype))),
                                   reads(bias, cols * bytes_of(bias_dtype))});
  with_float_type(c.dtype, [&](auto c_type) {
    with_float_type(bias_dtype, [&](auto bias_type) {
      using T = decltype(c_type);
      using BiasT = decltype(bias_type);
      AddBias<T, BiasT> const body{static_cast<T*>(const_cast<void*>(c.data)), static_cast<BiasT const*>(bias), cols,
                                   c.row_stride, beta};
      for_each<1>(body, rows * cols, false, stream);
    });
  });
}

}  // namespace shardbench
