#include "harness/planner/device_search.hpp"

namespace shardbench {
namespace {

constexpr std::int64_t parts_of_half = 8;
constexpr double spare = 0.9;  // more devices shift the best cut, which can gain a little beyond their number

}  // namespace

DeviceSearch fewest_devices(std::int64_t from, std::int64_t to, double limit,
                            std::function<DeviceTrial(std::int64_t)> const& attempt) {
  DeviceSearch search;
  DeviceTrial met;
  for (std::int64_t n = from;; n = n > to / 2 ? to : 2 * n) {
    search.trials.push_back(attempt(n));
    if (search.trials.back().meets) met = search.trials.back();
    if (met.meets || n >= to) break;
  }
  if (!met.meets) return search;
  search.devices = met.devices;
  if (search.trials.size() < 2) return search;
  std::int64_t const low = search.trials[search.trials.size() - 2].devices;
  std::int64_t const step = (met.devices - low + parts_of_half - 1) / parts_of_half;
  for (std::int64_t n = low + step; n < met.devices; n += step) {
    double const at_best = spare * met.time * static_cast<double>(met.devices) / static_cast<double>(n);
    if (limit > 0 && at_best > limit) continue;
    search.trials.push_back(attempt(n));
    if (!search.trials.back().meets) continue;
    search.devices = n;
    break;
  }
  return search;
}

std::size_t bend_of(std::vector<std::int64_t> const& devices, std::vector<double> const& step_ms) {
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    double const added = static_cast<double>(devices[i + 1]) / static_cast<double>(devices[i]);
    if (step_ms[i] / step_ms[i + 1] < bend_share * added) return i;
  }
  return devices.empty() ? 0 : devices.size() - 1;
}

}  // namespace shardbench
