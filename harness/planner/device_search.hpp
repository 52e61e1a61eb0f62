#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace shardbench {

/// What planning for one device count came to.
struct DeviceTrial {
  std::int64_t devices = 0;
  bool possible = false;  ///< a legal cut that fits in memory
  bool meets = false;     ///< what is demanded of it (the deadline, the latencies)
  double time = 0;        ///< the time that the demand limits, any unit; 0 when not possible
};

/// Every trial, in the order tried, and the fewest devices that met the demand, 0 when none did.
struct DeviceSearch {
  std::vector<DeviceTrial> trials;
  std::int64_t devices = 0;
};

/// Tries from, 2 from, 4 from, ... up to `to` until one meets the demand; then the counts between it and the half of it
/// in eighths of the half (the counts that still share many divisors), smallest first. A count in between is passed
/// over when even a perfect scaling from the one that met the demand (with a tenth to spare) would miss `limit`; limit
/// 0: no count is passed over.
DeviceSearch fewest_devices(std::int64_t from, std::int64_t to, double limit,
                            std::function<DeviceTrial(std::int64_t)> const& attempt);

/// A doubling of devices gains less than this share of itself: there the curve has bent.
inline constexpr double bend_share = 0.8;

/// Index of the last point before the curve bends: the next doubling (or whatever the next step is) returns less than
/// bend_share of the devices that it adds. The last index when it never does. Times and devices ascend together.
std::size_t bend_of(std::vector<std::int64_t> const& devices, std::vector<double> const& step_ms);

}  // namespace shardbench
