#include "harness/calibrate/collective_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/calibrate/median.hpp"

namespace shardbench {
namespace {

constexpr double small_bytes = 8192;  ///< up to here a time is latency
constexpr double largest_latency_size = 65536;
constexpr double least_span = 256;     ///< largest over smallest size
constexpr double worst_median = 0.25;  ///< a typical residual above this is no fit

double latency_of(std::span<NcclPoint const> points) {
  std::vector<double> times;
  for (NcclPoint const& p : points)
    if (p.bytes <= small_bytes) times.push_back(p.time_us);
  if (times.empty()) times.push_back(std::ranges::min_element(points, {}, &NcclPoint::bytes)->time_us);
  return median(times);
}

/// Weighted least squares of (time - latency) = a bytes + b sqrt(bytes) in relative errors, both at least 0.
struct Slopes {
  double a = 0, b = 0;
};
Slopes solve(std::span<NcclPoint const> points, std::vector<double> const& weights, double latency) {
  double xx = 0, xy = 0, yy = 0, xt = 0, yt = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double const t = points[i].time_us, x = points[i].bytes / t, y = std::sqrt(points[i].bytes) / t,
                 r = (t - latency) / t;
    double const w = weights[i];
    xx += w * x * x, xy += w * x * y, yy += w * y * y, xt += w * x * r, yt += w * y * r;
  }
  double const determinant = xx * yy - xy * xy;
  Slopes s;
  if (determinant > 1e-12 * xx * yy) s = {(xt * yy - yt * xy) / determinant, (yt * xx - xt * xy) / determinant};
  if (determinant <= 1e-12 * xx * yy || s.b < 0) s = {xx > 0 ? xt / xx : 0, 0};
  if (s.a < 0) s = {0, yy > 0 ? yt / yy : 0};
  return s;
}

std::string data_problem(std::span<NcclPoint const> points) {
  if (points.size() < 5)
    return fmt::format("{} usable sizes; latency, bandwidth and what is between need at least 5", points.size());
  double const least = points.front().bytes, most = points.back().bytes;
  if (least > largest_latency_size)
    return fmt::format("the smallest size is {:.0f} bytes: nothing at or below {:.0f} shows the latency", least,
                       largest_latency_size);
  if (most / least < least_span)
    return fmt::format("sizes from {:.0f} to {:.0f} bytes are too close: a factor of {:.0f} is needed", least, most,
                       least_span);
  return {};
}

void set_residuals(CollectiveFit& fit, std::span<NcclPoint const> points) {
  std::vector<double> residuals;
  for (NcclPoint const& p : points) {
    residuals.push_back(std::abs(fit.time_us(p.bytes) - p.time_us) / p.time_us);
    if (residuals.back() > fit.worst_residual) fit.worst_residual = residuals.back(), fit.worst_bytes = p.bytes;
  }
  fit.median_residual = median(residuals);
}

}  // namespace

double CollectiveFit::time_us(double bytes) const {
  return latency_us + (bytes + std::sqrt(bytes * knee_bytes)) / (bandwidth_gb_per_s * 1e3);
}

CollectiveFit fit_collective(std::span<NcclPoint const> given) {
  std::vector<NcclPoint> points(given.begin(), given.end());
  std::ranges::sort(points, {}, &NcclPoint::bytes);
  CollectiveFit fit;
  fit.points = points.size();
  fit.refusal = data_problem(points);
  if (!fit.refusal.empty()) return fit;
  fit.least_bytes = points.front().bytes, fit.most_bytes = points.back().bytes;
  fit.latency_us = latency_of(points);
  std::vector<double> weights(points.size(), 1);
  Slopes slopes;
  for (int round = 0; round < 20; ++round) {
    slopes = solve(points, weights, fit.latency_us);
    std::vector<double> residuals;
    for (NcclPoint const& p : points)
      residuals.push_back(std::abs(fit.latency_us + slopes.a * p.bytes + slopes.b * std::sqrt(p.bytes) - p.time_us) /
                          p.time_us);
    double const limit = std::max(1.5 * median(residuals), 1e-6);
    for (std::size_t i = 0; i < points.size(); ++i) weights[i] = std::min(1.0, limit / std::max(residuals[i], 1e-12));
  }
  if (slopes.a <= 0) {
    fit.refusal = "the times do not grow with the size: no bandwidth follows from them";
    return fit;
  }
  fit.bandwidth_gb_per_s = 1 / slopes.a / 1e3;
  fit.knee_bytes = std::pow(slopes.b / slopes.a, 2);
  // a x = latency + b sqrt(x)
  double const root = (slopes.b + std::sqrt(slopes.b * slopes.b + 4 * slopes.a * fit.latency_us)) / (2 * slopes.a);
  fit.half_bytes = root * root;
  set_residuals(fit, points);
  if (fit.median_residual > worst_median)
    fit.refusal = fmt::format("a typical size is {:.0f}% off any latency and bandwidth: the curve is not one",
                              100 * fit.median_residual);
  return fit;
}

CollectiveFit fit_run(NcclReview const& review) {
  CollectiveFit refused;
  refused.refusal = review.unusable;
  for (NcclSuspicion const& s : review.suspicions)
    if (s.kind == NcclFinding::cliff && refused.refusal.empty()) refused.refusal = "a cliff: " + s.text;
  if (!refused.refusal.empty()) return refused;
  return fit_collective(review.points);
}

}  // namespace shardbench
