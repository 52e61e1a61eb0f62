#pragma once
#include <span>
#include <string>

#include "harness/calibrate/nccl_review.hpp"

namespace shardbench {

/// time = latency + bytes / bandwidth + sqrt(bytes * knee) / bandwidth: latency where messages are small, bandwidth
/// where they are large, and the slow rise between that real transports have.
struct CollectiveFit {
  double latency_us = 0;
  double bandwidth_gb_per_s = 0;  ///< of the payload (algbw), for endless messages
  double knee_bytes = 0;
  double half_bytes = 0;                           ///< where half of the bandwidth is reached
  double median_residual = 0, worst_residual = 0;  ///< |fit - measured| / measured
  double worst_bytes = 0;
  double least_bytes = 0, most_bytes = 0;  ///< what was measured
  std::size_t points = 0;
  std::string refusal;  ///< why there is no fit, in one line; empty when there is one

  double time_us(double bytes) const;
};

/// Robust fit (iterated, weights fall beyond 1.5 times the median residual) of relative errors. Refuses what the data
/// does not carry: fewer than 5 sizes, no small or no large ones, a curve that is no curve.
CollectiveFit fit_collective(std::span<NcclPoint const> points);

/// The same, refusing a run that measures no link or has a cliff, with the reason.
CollectiveFit fit_run(NcclReview const& review);

}  // namespace shardbench
