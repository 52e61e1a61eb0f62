#include <vector>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"
#include "kernels/rope/rope_math.hpp"

namespace shardbench::host {
namespace {

template <class T>
void rotate_head(T* x, float const* sine, float const* cosine, std::int64_t half) {
#pragma omp simd
  for (std::int64_t d = 0; d < half; ++d) {
    RopePair const turned = rotate({to_float(x[d]), to_float(x[half + d])}, {sine[d], cosine[d]});
    x[d] = from_float<T>(turned.first);
    x[half + d] = from_float<T>(turned.second);
  }
}

template <class T>
void rotate_rows(RopeArgs const& args) {
  thread_local Workspace workspace;
  thread_local std::vector<double> frequency;
  std::int64_t const half = args.rotary_dim / 2;
  float* const sine = workspace.floats(2 * half);
  float* const cosine = sine + half;
  frequency.resize(half);
  double* const radians = frequency.data();
  for (std::int64_t d = 0; d < half; ++d) {
    radians[d] = rope_frequency(args.rule, d, args.rotary_dim);
  }
  for (std::int64_t s = 0; s < args.seq; ++s) {
    auto const position = static_cast<double>(args.positions != nullptr ? args.positions[s] : s);
    double const signed_position = args.inverse ? -position : position;
#pragma omp simd
    for (std::int64_t d = 0; d < half; ++d) {
      SineCosine const angle = scaled(fast_sincos(signed_position * radians[d]), args.rule.amplitude);
      sine[d] = angle.sine;
      cosine[d] = angle.cosine;
    }
    for (std::int64_t b = 0; b < args.batch; ++b) {
      T* const row = static_cast<T*>(args.x) + (s * args.batch + b) * args.row_stride;
      for (std::int64_t h = 0; h < args.heads; ++h) rotate_head(row + h * args.head_dim, sine, cosine, half);
    }
  }
}

}  // namespace

void rope(RopeArgs const& args) {
  with_storage(args.dtype, "rope", [&]<class T>(T) { rotate_rows<T>(args); });
}

}  // namespace shardbench::host
