#pragma once
#include "harness/calibrate/nccl_review.hpp"

namespace shardbench {

/// One time of a table on its own.
struct SizedTiming {
  std::int64_t size = 0, line = 0;
  double time_us = 0;
  bool in_place = false;
  bool excluded = false;  ///< wrong, inconsistent, an outlier
};

/// Where the result of a collective lies.
constexpr std::string_view place_text(bool in_place) { return in_place ? "in place" : "out of place"; }

/// Looks at the curve: warm-up, outliers, dips, cliffs, what the links can do; fills points, peak and suspicions.
void review_shape(NcclRun const& run, std::vector<SizedTiming> timings, NcclLimits const& limits, NcclReview& out);

}  // namespace shardbench
