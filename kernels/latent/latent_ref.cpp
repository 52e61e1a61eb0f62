#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void join_keys(JoinKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t d = 0; d < s.key_dim(); ++d) {
        double const value = d < s.rotary_dim ? read_element(args.rotary, s.dtype, r * s.rotary_stride + d)
                                              : read_element(args.plain, s.dtype,
                                                             r * s.plain_stride + h * s.plain_dim + d - s.rotary_dim);
        write_element(args.keys, s.dtype, (r * s.heads + h) * s.key_dim() + d, value);
      }
}

void split_keys(SplitKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  auto const dkey = [&](std::int64_t r, std::int64_t h, std::int64_t d) {
    return read_element(args.dkeys, s.dtype, (r * s.heads + h) * s.key_dim() + d);
  };
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t d = 0; d < s.plain_dim; ++d)
        write_element(args.dplain, s.dtype, r * s.plain_stride + h * s.plain_dim + d, dkey(r, h, s.rotary_dim + d));
    for (std::int64_t d = 0; d < s.rotary_dim; ++d) {
      double sum = 0;
      for (std::int64_t h = 0; h < s.heads; ++h) sum += dkey(r, h, d);
      write_element(args.drotary, s.dtype, r * s.rotary_stride + d, sum);
    }
  }
}

}  // namespace shardbench::reference
