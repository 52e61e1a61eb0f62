#include <cmath>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void batch_norm_forward(BatchNormForwardArgs const& args) {
  auto const n = static_cast<double>(args.rows);
  for (std::int64_t c = 0; c < args.cols && args.rows > 0; ++c) {
    auto const x = [&](std::int64_t r) { return read_element(args.x, args.dtype, r * args.cols + c); };
    double mean = 0, variance = 0;
    for (std::int64_t r = 0; r < args.rows; ++r) mean += x(r) / n;
    for (std::int64_t r = 0; r < args.rows; ++r) variance += (x(r) - mean) * (x(r) - mean) / n;
    double const rstd = 1 / std::sqrt(variance + static_cast<double>(args.eps));
    double const weight = read_element(args.weight, args.dtype, c), bias = read_element(args.bias, args.dtype, c);
    for (std::int64_t r = 0; r < args.rows; ++r)
      write_element(args.y, args.dtype, r * args.cols + c, (x(r) - mean) * rstd * weight + bias);
    args.mean[c] = static_cast<float>(mean);
    args.rstd[c] = static_cast<float>(rstd);
  }
}

void batch_norm_backward(BatchNormBackwardArgs const& args) {
  auto const n = static_cast<double>(args.rows);
  for (std::int64_t c = 0; c < args.cols; ++c) {
    double const mean = args.rows > 0 ? static_cast<double>(args.mean[c]) : 0.0;
    double const rstd = args.rows > 0 ? static_cast<double>(args.rstd[c]) : 0.0;
    auto const dy = [&](std::int64_t r) { return read_element(args.dy, args.dtype, r * args.cols + c); };
    auto const unit = [&](std::int64_t r) {
      return (read_element(args.x, args.dtype, r * args.cols + c) - mean) * rstd;
    };
    double dweight = 0, dbias = 0;
    for (std::int64_t r = 0; r < args.rows; ++r) dweight += dy(r) * unit(r), dbias += dy(r);
    double const factor = rstd * read_element(args.weight, args.dtype, c);
    for (std::int64_t r = 0; r < args.rows; ++r)
      write_element(args.dx, args.dtype, r * args.cols + c, factor * (dy(r) - dbias / n - unit(r) * dweight / n));
    args.sums[c] = static_cast<float>(dweight);
    args.sums[args.cols + c] = static_cast<float>(dbias);
    args.dweight[c] = static_cast<float>(dweight + (args.accumulate ? static_cast<double>(args.dweight[c]) : 0.0));
    args.dbias[c] = static_cast<float>(dbias + (args.accumulate ? static_cast<double>(args.dbias[c]) : 0.0));
  }
}

}  // namespace shardbench::reference
