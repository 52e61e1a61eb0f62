#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/rope/rope_math.hpp"

namespace shardbench::cuda {
namespace {

/// One thread turns one pair of one row in every head: the angle, in double, is computed once for all of them.
template <class T>
struct Rope {
  T* x;
  std::int64_t batch, heads, head_dim, rotary_dim, row_stride;
  RopeRule rule;
  std::int32_t const* positions;
  bool inverse;

  template <int width>
  __device__ void at(std::int64_t i) const {
    static_assert(width == 1);
    std::int64_t const half = rotary_dim / 2, row = i / half, d = i % half, s = row / batch;
    double const position = static_cast<double>(positions ? positions[s] : s);
    SineCosine angle = scaled(fast_sincos(position * rope_frequency(rule, d, rotary_dim)), rule.amplitude);
    if (inverse) angle.sine = -angle.sine;
    T* element = x + row * row_stride + d;
    for (std::int64_t h = 0; h < heads; ++h, element += head_dim) {
      RopePair const turned = rotate({to_float(element[0]), to_float(element[half])}, angle);
      element[0] = from_float<T>(turned.first);
      element[half] = from_float<T>(turned.second);
    }
  }
};

}  // namespace

void rope(Stream& stream, RopeArgs const& args) {
  std::int64_t const rows = args.seq * args.batch;
  if (args.heads == 0) return;
  declare_access(stream.native(),
                 {writes(args.x, span_bytes(rows, args.heads * args.head_dim, args.row_stride, bytes_of(args.dtype))),
                  reads(args.positions, args.seq * sizeof(std::int32_t))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    Rope<T> const body{static_cast<T*>(args.x), args.batch, args.heads,     args.head_dim, args.rotary_dim,
                       args.row_stride,         args.rule,  args.positions, args.inverse};
    for_each<1>(body, rows * (args.rotary_dim / 2), false, cuda_stream(stream));
  });
}

}  // namespace shardbench::cuda
