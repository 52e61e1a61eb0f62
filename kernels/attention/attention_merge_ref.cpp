#include <cmath>
#include <limits>

#include "kernels/attention/attention_math.hpp"
#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

/// exp(a) as a share of the whole; 0 when the side saw no key.
double share(double log_sum_exp, double whole) { return std::isinf(log_sum_exp) ? 0.0 : std::exp(log_sum_exp - whole); }

}  // namespace

void attention_merge(AttentionMergeArgs const& args) {
  for (std::int64_t b = 0; b < args.batch; ++b)
    for (std::int64_t head = 0; head < args.heads; ++head)
      for (std::int64_t s = 0; s < args.seq; ++s) {
        float& statistic = args.log_sum_exp[(b * args.heads + head) * statistic_stride(args) + s];
        double const own = static_cast<double>(statistic);
        double const block = static_cast<double>(args.block_log_sum_exp[(b * args.heads + head) * args.seq + s]);
        double const highest = std::max(own, block);
        if (std::isinf(highest)) continue;
        double const whole = highest + std::log(std::exp(own - highest) + std::exp(block - highest));
        for (std::int64_t d = 0; d < args.value_dim; ++d) {
          std::int64_t const column = head * args.value_dim + d, row = s * args.batch + b;
          std::int64_t const at = row * args.out.row_stride + column;
          double const mine = read_element(args.out.data, args.dtype, at);
          double const other = read_element(args.block.data, args.dtype, row * args.block.row_stride + column);
          write_element(args.out.data, args.dtype, at, share(own, whole) * mine + share(block, whole) * other);
        }
        statistic = static_cast<float>(whole);
      }
}

}  // namespace shardbench::reference
