#include <cmath>
#include <vector>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void norm_forward(NormForwardArgs const& args) {
  std::vector<double> x(args.cols);
  auto const cols = static_cast<double>(args.cols);
  for (std::int64_t r = 0; r < args.rows * args.heads; ++r) {
    std::int64_t const x_at = vector_offset(r, args.heads, args.cols, args.x_stride);
    std::int64_t const y_at = vector_offset(r, args.heads, args.cols, args.y_stride);
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double& value = x[c];
      value = read_element(args.x, args.dtype, x_at + c);
      if (args.residual == nullptr) continue;
      // What is normalised is the sum as stored, so that fused and separate addition give the same result.
      std::int64_t const at = r * args.cols + c;
      write_element(args.sum, args.dtype, at, value + read_element(args.residual, args.dtype, at));
      value = read_element(args.sum, args.dtype, at);
    }
    double mean = 0;
    if (args.kind == NormKind::layer_norm) {
      for (double const value : x) mean += value / cols;
    }
    double variance = 0;
    for (double const value : x) variance += (value - mean) * (value - mean) / cols;
    double const rstd = 1 / std::sqrt(variance + static_cast<double>(args.eps));
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double const weight = read_element(args.weight, args.dtype, c) + static_cast<double>(args.weight_offset);
      double const bias = args.bias != nullptr ? read_element(args.bias, args.dtype, c) : 0.0;
      write_element(args.y, args.dtype, y_at + c, (x[c] - mean) * rstd * weight + bias);
    }
    if (args.mean != nullptr) args.mean[r] = static_cast<float>(mean);
    if (args.rstd != nullptr) args.rstd[r] = static_cast<float>(rstd);
  }
}

namespace {

/// dx of row r; adds the row's share to the column sums.
void backward_row(NormBackwardArgs const& args, std::int64_t r, std::vector<double>& dweight,
                  std::vector<double>& dbias) {
  double const mean = args.kind == NormKind::layer_norm ? static_cast<double>(args.mean[r]) : 0.0;
  double const rstd = static_cast<double>(args.rstd[r]);
  std::int64_t const x_at = vector_offset(r, args.heads, args.cols, args.x_stride);
  std::int64_t const y_at = vector_offset(r, args.heads, args.cols, args.y_stride);
  auto const normalised = [&](std::int64_t c) { return (read_element(args.x, args.dtype, x_at + c) - mean) * rstd; };
  auto const dy = [&](std::int64_t c) { return read_element(args.dy, args.dtype, y_at + c); };
  auto const scaled = [&](std::int64_t c) {
    return dy(c) * (read_element(args.weight, args.dtype, c) + static_cast<double>(args.weight_offset));
  };
  double mean_scaled = 0, mean_product = 0;
  for (std::int64_t c = 0; c < args.cols; ++c) {
    mean_scaled += scaled(c) / static_cast<double>(args.cols);
    mean_product += scaled(c) * normalised(c) / static_cast<double>(args.cols);
  }
  if (args.kind == NormKind::rms_norm) mean_scaled = 0;
  for (std::int64_t c = 0; c < args.cols; ++c) {
    std::int64_t const at = x_at + c;
    dweight[c] += dy(c) * normalised(c);
    dbias[c] += dy(c);
    double dx = rstd * (scaled(c) - mean_scaled - normalised(c) * mean_product);
    if (args.dsum != nullptr) dx += read_element(args.dsum, args.dtype, at);
    write_element(args.dx, args.dtype, at, dx);
  }
}

void write_sums(std::vector<double> const& sums, float* to, bool accumulate) {
  for (std::size_t c = 0; c < sums.size(); ++c) {
    to[c] = static_cast<float>(sums[c] + (accumulate ? static_cast<double>(to[c]) : 0.0));
  }
}

}  // namespace

void norm_backward(NormBackwardArgs const& args) {
  std::vector<double> dweight(args.cols, 0.0), dbias = dweight;
  for (std::int64_t r = 0; r < args.rows * args.heads; ++r) backward_row(args, r, dweight, dbias);
  if (args.dweight == nullptr) return;
  write_sums(dweight, args.dweight, args.accumulate);
  if (args.dbias != nullptr) write_sums(dbias, args.dbias, args.accumulate);
}

}  // namespace shardbench::reference
