#include "kernels/core/cuda/vec.hpp"
#include "kernels/dropout/dropout_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Dropout {
  T const *x, *bias, *residual;
  T* out;
  std::int64_t cols;
  DropoutMask mask;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const row = i / cols, col = i - row * cols;
    float value[width], other[width];
    load<width>(x + i, value);
    if (bias) {
      load<width>(bias + col, other);
      for (int j = 0; j < width; ++j) value[j] += other[j];
    }
    if (mask.rate > 0) {
      std::uint64_t const first = mask.first_of(row) + static_cast<std::uint64_t>(col);
      for (int j = 0; j < width; ++j) value[j] = mask.apply(value[j], first + static_cast<std::uint64_t>(j));
    }
    if (residual) {
      load<width>(residual + i, other);
      for (int j = 0; j < width; ++j) value[j] += other[j];
    }
    store<width>(out + i, value);
  }
};

}  // namespace

void dropout(Stream& stream, DropoutArgs const& args) {
  std::int64_t const count = args.rows * args.cols;
  std::size_t const size = bytes_of(args.dtype), bytes = count * size;
  declare_access(stream.native(),
                 {reads(args.x, bytes), reads(args.bias, args.cols * size), reads(args.residual, bytes),
                  writes(args.out, bytes), reads(args.positions, (args.rows / args.batch) * sizeof(std::int32_t))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int width = pack_width<T>;
    Dropout<T> const body{static_cast<T const*>(args.x),
                          static_cast<T const*>(args.bias),
                          static_cast<T const*>(args.residual),
                          static_cast<T*>(args.out),
                          args.cols,
                          dropout_mask(args)};
    // A pack must not cross the end of a row.
    bool const wide = args.cols % width == 0 && all_aligned(args.x, args.bias, args.residual, args.out);
    for_each<width>(body, count, wide, cuda_stream(stream));
  });
}

}  // namespace shardbench::cuda
