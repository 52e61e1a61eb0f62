#pragma once
#include <optional>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/exec/parity.hpp"
#include "harness/record/statistics.hpp"

namespace shardbench {

/// Measured times of one op label on this rank, per call.
struct LabelTime {
  std::uint32_t label = 0;
  std::int64_t count = 0;  ///< calls in one step
  double p50_us = 0;       ///< median duration of a call
  double total_ms = 0;     ///< sum over one step (mean of the instrumented steps)
};

/// What a configuration did. Equal on all ranks unless it says "this rank".
struct Measurement {
  Summary step_ms;                          ///< step = maximum over ranks, iterations without per-op marks
  Breakdown breakdown;                      ///< means over ranks, from instrumented iterations
  double optimizer_ms = 0;                  ///< of the instrumented steps, mean over ranks
  std::optional<double> loss;               ///< of the first step; nothing without a head
  std::optional<double> grad_norm;          ///< of the first step, over the whole model; nothing in inference
  EnumArray<Axis, double> payload_bytes{};  ///< this rank's communicators, one step, mean over ranks
  double memory_bytes = 0;                  ///< arena of the largest rank
  DeviceState state;                        ///< this rank's device, right after the timed steps
  std::vector<LabelTime> labels;            ///< this rank
  std::vector<Span> spans;                  ///< this rank, last instrumented step, times from its start
  std::optional<ParityReport> parity;
  double max_identity_error_ms = 0;  ///< |step - compute - exposed - idle|, largest over ranks and iterations
};

/// Warm-up, timed iterations until the median is known well enough or a cap is reached, instrumented iterations, and
/// before them the parity check (see check_parity) when the experiment asks for it. Collective over `world`.
Measurement measure(Runner& runner, Experiment const& experiment, Device& device, Communicator& world,
                    std::optional<LoweredStage> const& unsharded = {});

}  // namespace shardbench
