#pragma once
#include <string>

#include "harness/calibrate/machine.hpp"
#include "harness/config/system_profile.hpp"

namespace shardbench {

/// A profile made from what was measured, and how well its formulas fit.
struct CalibratedProfile {
  SystemProfile profile;
  double gemm_error_fit = 0,
         gemm_error_held_out = 0;  ///< median |fit - measured| / measured over two thirds, and over the rest
};

/// Fits the formulas of a profile to the measurements; the measured curves stay beside them and go first.
CalibratedProfile make_profile(MachineMeasurement const& measured, std::string name);

/// The YAML that parse_system_profile reads back.
std::string profile_yaml(SystemProfile const& profile);

/// overlap_slowdown of a measurement in words, which hold above 1 too.
std::string overlap_text(double slowdown);

}  // namespace shardbench
