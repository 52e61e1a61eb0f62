#include "kernels/core/cuda/vec.hpp"
#include "kernels/dropout/dropout_math.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Dropout {
  DropoutArgs a;
  DropoutMask mask;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const row = i / a.cols, col = i - row * a.cols;
    float value[width], other[width];
    load<width>(as<T>(a.x) + i, value);
    if (a.bias) {
      load<width>(as<T>(a.bias) + col, other);
      for (int j = 0; j < width; ++j) value[j] += other[j];
    }
    if (mask.rate > 0) {
      std::uint64_t const first = mask.first_of(row) + static_cast<std::uint64_t>(col);
      for (int j = 0; j < width; ++j) value[j] = mask.apply(value[j], first + static_cast<std::uint64_t>(j));
    }
    if (a.residual) {
      load<width>(as<T>(a.residual) + i, other);
      for (int j = 0; j < width; ++j) value[j] += other[j];
    }
    store<width>(as<T>(a.out) + i, value);
  }
};

}  // namespace

void dropout(Stream& stream, DropoutArgs const& args) {
  std::int64_t const count = args.rows * args.cols;
  std::size_t const size = bytes_of(args.dtype), bytes = count * size;
  declare_access(stream.native(),
                 {reads(args.x, bytes), reads(args.bias, args.cols * size), reads(args.residual, bytes),
                  writes(args.out, bytes), reads(args.positions, (args.rows / args.batch) * sizeof(std::int32_t))});
  for_each_element<Dropout>(stream, args, count, args.cols, {args.x, args.bias, args.residual, args.out},
                            dropout_mask(args));
}

}  // namespace shardbench::cuda
