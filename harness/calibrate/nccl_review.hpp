#pragma once
#include <utility>

#include "harness/calibrate/nccl_log.hpp"

namespace shardbench {

/// What a reader should know before believing a table.
enum class NcclFinding : std::uint8_t {
  no_rows,
  uneven,              ///< alltoallv: each pair of ranks has its own amount
  one_rank,            ///< nothing crosses a link
  independent_worlds,  ///< several jobs that do not know of each other
  rank_guess,
  rank_conflict,
  collective_guess,
  shared_device,  ///< ranks on one device: time slices, no link
  wrong_result,
  unchecked,
  inconsistent_row,  ///< algbw is not size/time
  unit_error,        ///< off by a thousand
  bus_mismatch,      ///< busbw is not algbw times the factor
  zero_rows,
  cut_row,
  truncated,
  average_differs,
  low_average,  ///< the printed mean is far below the best row
  warm_up,
  outlier,
  time_falls,  ///< a larger size takes less time: another protocol
  dip,
  cliff,
  above_link,
  below_link,
  size_
};
std::string_view to_string(NcclFinding finding);

struct NcclSuspicion {
  NcclFinding kind = NcclFinding::no_rows;
  std::int64_t line = 0;  ///< 0: the whole run
  std::string text;
};

/// A size with a time that can be believed.
struct NcclPoint {
  double bytes = 0, time_us = 0;
};

/// Peak rates to compare with, GB/s in one direction for a rank.
struct NcclLimits {
  std::optional<double> link_gb_per_s;  ///< stated by the user; else the device names may tell within one node
};

/// A run looked over.
struct NcclReview {
  std::vector<NcclSuspicion> suspicions;
  std::vector<NcclPoint> points;        ///< by size: right, consistent, no outliers; half-way between the halves
  double mean_shown = 0;                ///< GB/s, busbw of every value that is there, as nccl-tests averages
  double mean_without_zero_rows = 0;    ///< GB/s
  double peak_busbw = 0;                ///< GB/s, of the believed values
  std::int64_t peak_size = 0;           ///< bytes
  std::optional<double> link_gb_per_s;  ///< what the peak was compared with
  std::string unusable;                 ///< why the run measures no link, in one line; empty when it does
  void add(NcclFinding kind, std::string text, std::int64_t line = 0) {
    suspicions.push_back({kind, line, std::move(text)});
  }
  bool has(NcclFinding kind) const;
  std::int64_t count(NcclFinding kind) const;
};

NcclReview review(NcclRun const& run, NcclLimits const& limits = {});

}  // namespace shardbench
