#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "harness/calibrate/machine.hpp"
#include "harness/calibrate/median.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

template <class Value>
double median_over(std::vector<MachineMeasurement> const& rounds, Value value) {
  std::vector<double> values;
  for (MachineMeasurement const& round : rounds) values.push_back(std::invoke(value, round));
  return median(values);
}

/// The times of each size, ascending.
using TimesBySize = std::map<double, std::vector<double>>;
void add(TimesBySize& times, std::vector<NcclPoint> const& points) {
  for (NcclPoint const& p : points) times[p.bytes].push_back(p.time_us);
}
std::vector<NcclPoint> medians(TimesBySize const& times) {
  std::vector<NcclPoint> points;
  for (auto const& [bytes, us] : times) points.push_back({bytes, median(us)});
  return points;
}

/// Sizes within a factor of 1.4 become one point: their middle.
std::vector<NcclPoint> thinned(std::vector<NcclPoint> const& points) {
  std::vector<NcclPoint> result;
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin;
    double size = 0, us = 0;
    for (; end < points.size() && points[end].bytes <= 1.4 * points[begin].bytes; ++end)
      size += points[end].bytes, us += points[end].time_us;
    double const count = static_cast<double>(end - begin);
    result.push_back({size / count, us / count});
    begin = end;
  }
  return result;
}

std::vector<MeasuredCurve> kernels_of(std::vector<MachineMeasurement> const& rounds) {
  std::map<OpKind, TimesBySize> times;
  for (MachineMeasurement const& round : rounds)
    for (MeasuredCurve const& curve : round.kernels) add(times[curve.kind], curve.points);
  std::vector<MeasuredCurve> curves;
  for (auto const& [kind, by_size] : times) curves.push_back({kind, 1, thinned(medians(by_size))});
  return curves;
}

std::vector<MeasuredProducts> products_of(std::vector<MachineMeasurement> const& rounds) {
  std::map<std::pair<bool, bool>, std::map<std::array<double, 3>, std::vector<double>>> times;
  for (MachineMeasurement const& round : rounds)
    for (MeasuredProducts const& p : round.products)
      for (auto const& [m, n, k, us] : p.samples) times[{p.transpose_a, p.transpose_b}][{m, n, k}].push_back(us);
  std::vector<MeasuredProducts> products;
  for (auto const& [transposed, shapes] : times) {
    MeasuredProducts& p = products.emplace_back(MeasuredProducts{transposed.first, transposed.second, {}});
    for (auto const& [shape, us] : shapes) p.samples.push_back({shape[0], shape[1], shape[2], median(us)});
  }
  return products;
}

/// Levels and curves come in the same order in every round.
std::vector<MeasuredLevel> levels_of(std::vector<MachineMeasurement> const& rounds) {
  std::vector<MeasuredLevel> levels = rounds.front().levels;
  for (std::size_t l = 0; l < levels.size(); ++l)
    for (std::size_t c = 0; c < levels[l].curves.size(); ++c) {
      TimesBySize times;
      for (MachineMeasurement const& round : rounds) add(times, round.levels.at(l).curves.at(c).points);
      levels[l].curves[c].points = medians(times);
    }
  return levels;
}

}  // namespace

MachineMeasurement median_of(std::vector<MachineMeasurement> const& rounds) {
  EXPECT(!rounds.empty());
  MachineMeasurement all = rounds.front();
  all.copy_gb_per_s = median_over(rounds, &MachineMeasurement::copy_gb_per_s);
  all.launch_us = median_over(rounds, &MachineMeasurement::launch_us);
  all.overlap_slowdown = median_over(rounds, &MachineMeasurement::overlap_slowdown);
  for (std::size_t i = 0; i < all.gemm.size(); ++i)
    all.gemm[i].us = median_over(rounds, [i](MachineMeasurement const& round) { return round.gemm.at(i).us; });
  all.kernels = kernels_of(rounds);
  all.products = products_of(rounds);
  all.levels = levels_of(rounds);
  for (std::size_t i = 0; i < all.steps.size(); ++i) {
    all.steps[i].ms.clear();
    for (MachineMeasurement const& round : rounds)
      all.steps[i].ms.insert(all.steps[i].ms.end(), round.steps.at(i).ms.begin(), round.steps.at(i).ms.end());
  }
  return all;
}

double beyond_chance(std::vector<double> values) {
  if (values.empty()) return 0;
  auto const count = static_cast<double>(values.size());
  Summary const all = summarize(std::move(values));
  double const error = 1.2533 * all.deviation / std::sqrt(count);  // of a median of normal values
  double const left = std::abs(all.median) - 2 * error;
  return left > 0 ? std::copysign(left, all.median) : 0;
}

}  // namespace shardbench
