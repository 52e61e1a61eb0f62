#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/experiment.hpp"

namespace shardbench {

/// One way to cut the model, in numbers small enough to try millions of.
struct Candidate {
  std::int32_t tp = 1, cp = 1, ep = 1, etp = 1, pp = 1, dp = 1, vpp = 1, micro_batch = 1;
  std::int8_t zero_stage = 0;
  bool sequence_parallel = false;
  bool tp_overlap = false;  ///< chunked
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = plain_schedule;
  bool operator==(Candidate const&) const = default;
};

/// The values that each axis may take. dp is what the others leave of the devices, unless it is fixed.
struct PlanAxes {
  std::vector<std::int32_t> tp, cp, ep, etp, pp, vpp, micro_batch, dp;  ///< dp empty: any
  std::vector<std::int8_t> zero_stage;
  std::vector<bool> sequence_parallel, tp_overlap;
  std::vector<Recompute> recompute;
  std::vector<ScheduleKind> schedule;
  /// Of etp only 1 and the tp of the cut are tried, whole experts or experts cut as the rest (Megatron's default);
  /// false where values were asked for.
  bool etp_follows_tp = true;
};

/// What is to be planned: a training step of `base` (model, seq, global batch, precision) on so many devices.
struct PlanRequest {
  Experiment base;
  std::int64_t devices = 1;
  PlanAxes axes;
};

/// More microbatches in a step than this are not planned for: the simulation plays each of them.
inline constexpr std::int64_t most_microbatches = 8192;

/// Every legal value of each axis that the model and the sizes leave: tensor-parallel degrees of the cut rules, context
/// parallelism from sequences of 8,192 tokens on, experts (whole or cut like the rest) where there are any, every
/// divisor of the batch as micro-batch, every schedule, ZeRO stage and recompute that the program of the step can be
/// lowered for.
PlanAxes default_axes(Experiment const& base, std::int64_t devices);
/// The same over all device counts up to this one.
PlanAxes axes_up_to(Experiment const& base, std::int64_t most_devices);

/// "tp=8", "schedule=1f1b|interleaved": keeps only these values (also such as default_axes left out). Throws InputError
/// naming the demand and what is allowed.
void fix_axis(PlanAxes& axes, std::string_view demand);
/// "zero=3", "recompute=full|selective": drops these values. Throws InputError when nothing is left.
void exclude_from_axis(PlanAxes& axes, std::string_view demand);

/// A line an axis: its name and values.
std::string axes_text(PlanAxes const& axes);

/// Whether so many pieces of the model leave none of its layers to the ends: embedding and head are pieces of their
/// own.
bool takes_end_slots(ModelConfig const& model, std::int64_t pieces);

/// The cut of a candidate, beside what the base says of it.
Cut cut_of(Experiment const& base, Candidate const& candidate);

/// The experiment that `run` and `simulate` take, resolved. Throws IllegalConfig when a rule forbids it.
Experiment experiment_of(PlanRequest const& request, Candidate const& candidate);

/// How many points the enumeration met.
struct SpaceCount {
  std::int64_t legal = 0, illegal = 0;
};

/// Candidates that differ only in what needs no new layer costs (pp, dp, vpp, schedule, zero) come one after the other,
/// in a fixed order. A candidate is legal by the rules of harness/config, those that need no model being applied here
/// in arithmetic.
SpaceCount for_each_candidate(PlanRequest const& request, std::function<void(Candidate const&)> const& visit);

/// The part of a candidate that decides the costs of a layer.
struct LayerKey {
  std::int32_t tp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1;
  bool sequence_parallel = false, tp_overlap = false;
  Recompute recompute = Recompute::none;
  auto operator<=>(LayerKey const&) const = default;
};
LayerKey layer_key(Candidate const& candidate);

}  // namespace shardbench
