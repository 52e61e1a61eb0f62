#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/rope/rope_math.hpp"

namespace shardbench::cuda {
namespace {

/// One thread turns one pair of one row in every head: the angle, in double, is computed once for all of them.
template <class T>
struct Rope {
  RopeArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    static_assert(width == 1);
    std::int64_t const half = a.rotary_dim / 2, row = i / half, d = i % half, s = row / a.batch;
    double const position = static_cast<double>(a.positions ? a.positions[s] : s);
    SineCosine angle = scaled(fast_sincos(position * rope_frequency(a.rule, d, a.rotary_dim)), a.rule.amplitude);
    if (a.inverse) angle.sine = -angle.sine;
    T* element = as<T>(a.x) + row * a.row_stride + d;
    for (std::int64_t h = 0; h < a.heads; ++h, element += a.head_dim) {
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
    for_each<1>(Rope<decltype(element)>{args}, rows * (args.rotary_dim / 2), false, cuda_stream(stream));
  });
}

}  // namespace shardbench::cuda
