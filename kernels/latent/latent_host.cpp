#include <algorithm>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {

void join_keys(JoinKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  with_storage(s.dtype, "latent keys", [&]<class T>(T) {
    auto* to = static_cast<T*>(args.keys);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      T const* const rotary = static_cast<T const*>(args.rotary) + r * s.rotary_stride;
      T const* plain = static_cast<T const*>(args.plain) + r * s.plain_stride;
      for (std::int64_t h = 0; h < s.heads; ++h, plain += s.plain_dim) {
        to = std::copy_n(rotary, s.rotary_dim, to);
        to = std::copy_n(plain, s.plain_dim, to);
      }
    }
  });
}

void split_keys(SplitKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  with_storage(s.dtype, "latent keys", [&]<class T>(T) {
    thread_local Workspace workspace;
    float* const sum = workspace.floats(s.rotary_dim);
    auto const* from = static_cast<T const*>(args.dkeys);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      T* plain = static_cast<T*>(args.dplain) + r * s.plain_stride;
      std::fill_n(sum, s.rotary_dim, 0.0f);
      for (std::int64_t h = 0; h < s.heads; ++h, from += s.key_dim()) {
#pragma omp simd
        for (std::int64_t d = 0; d < s.rotary_dim; ++d) sum[d] += to_float(from[d]);
        plain = std::copy_n(from + s.rotary_dim, s.plain_dim, plain);
      }
      T* const rotary = static_cast<T*>(args.drotary) + r * s.rotary_stride;
      for (std::int64_t d = 0; d < s.rotary_dim; ++d) rotary[d] = from_float<T>(sum[d]);
    }
  });
}

}  // namespace shardbench::host
