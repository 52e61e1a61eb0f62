#include <algorithm>

#include "harness/simulate/simulate.hpp"

namespace shardbench {

namespace {

/// A chunk of one op a segment: what a schedule needs to be a program.
void add_chunk(StepProgram& p, std::int32_t index) {
  auto const tensor = [&](char const* name) {
    Tensor t;
    t.name = name;
    t.role = TensorRole::activation;
    t.rows = t.cols = 1;
    p.tensors.push_back(std::move(t));
    return static_cast<TensorId>(p.tensors.size() - 1);
  };
  Chunk chunk;
  chunk.input = tensor("input"), chunk.output = tensor("output"), chunk.input_gradient = tensor("input_gradient"),
  chunk.output_gradient = tensor("output_gradient");
  TensorId const saved = tensor("saved"), pending = tensor("pending");
  auto const segment = [&](ActionKind kind, std::vector<TensorId> const& in, std::vector<TensorId> const& out) {
    Op op;
    op.kind = OpKind::gemm;
    op.shape = GemmShape{};
    op.label = static_cast<std::int32_t>(kind);
    for (TensorId const id : in) op.inputs.push_back({id, 0, 0});
    for (TensorId const id : out) op.outputs.push_back({id, 0, 0});
    if ((kind == ActionKind::backward || kind == ActionKind::backward_input) && p.schedule.sends_ahead())
      op.after.push_back({chunk.output, 0, 0});
    p.segments.push_back({kind, index, {op}});
  };
  segment(ActionKind::forward, {chunk.input}, {chunk.output, saved});
  segment(ActionKind::backward, {saved, chunk.output_gradient}, {chunk.input_gradient});
  segment(ActionKind::backward_input, {saved, chunk.output_gradient}, {chunk.input_gradient, pending});
  segment(ActionKind::backward_weight, {saved, pending}, {});
  chunk.pipeline_chunk = index;
  p.chunks.push_back(chunk);
}

/// Durations by action: the label of a schedule program's op is its action kind.
class TimesByAction final : public DurationModel {
 public:
  explicit TimesByAction(PassTimes const& times) : times_(times) {}
  double compute_ms(StepProgram const&, Op const& op, bool) const final {
    switch (static_cast<ActionKind>(std::int32_t{op.label})) {
      case ActionKind::forward:
        return times_.forward;
      case ActionKind::backward:
        return times_.backward();
      case ActionKind::backward_input:
        return times_.backward_input;
      default:
        return times_.backward_weight;
    }
  }
  double collective_ms(StepProgram const&, Op const&) const final { return 0; }
  double transfer_ms(StepProgram const&, Op const&) const final { return times_.transfer; }

 private:
  PassTimes times_;
};

}  // namespace

std::vector<StepProgram> schedule_programs(PipelineSchedule const& schedule) {
  PipelineSchedule with_transfers = schedule;
  add_transfers(with_transfers);
  std::vector<StepProgram> programs;
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    StepProgram p;
    p.stage = stage;
    p.schedule = schedule;
    p.microbatches = schedule.microbatches;
    for (std::int32_t c = 0; c < schedule.chunks; ++c) add_chunk(p, c);
    // Two chunks of one stage that follow each other share the tensor at their border.
    for (std::int32_t c = 0; c < schedule.chunks; ++c) {
      auto const next = schedule.next({stage, c});
      if (!next || next->stage != stage) continue;
      auto const rename = [&](TensorId from, TensorId to) {
        for (Segment& s : p.segments)
          for (Op& op : s.ops)
            for (auto* refs : {&op.inputs, &op.outputs})
              for (TensorRef& ref : *refs)
                if (ref.id == from) ref.id = to;
      };
      Chunk& mine = p.chunks[c];
      Chunk& theirs = p.chunks[next->chunk];
      rename(theirs.input, mine.output), rename(theirs.input_gradient, mine.output_gradient);
      theirs.input = mine.output, theirs.input_gradient = mine.output_gradient;
    }
    p.actions = with_transfers.order[stage];
    programs.push_back(std::move(p));
  }
  return programs;
}

ScheduleSummary summarize_schedule(PipelineSchedule const& schedule, PassTimes const& times) {
  auto const programs = schedule_programs(schedule);
  auto const result = simulate(programs, TimesByAction(times), {.record_spans = false});
  ScheduleSummary summary;
  summary.step = result.step_ms;
  for (auto const& stage : result.stages) summary.ideal = std::max(summary.ideal, stage.compute_ms);
  summary.bubble = summary.step - summary.ideal;
  summary.bubble_fraction = summary.step > 0 ? summary.bubble / summary.step : 0;
  for (auto const& actions : schedule.order) {
    std::int32_t held = 0, peak = 0;
    for (Action const& a : actions) {
      bool const forward = a.kind == ActionKind::forward || a.kind == ActionKind::pair;
      bool const frees =
          a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight || a.kind == ActionKind::pair;
      peak = std::max(peak, held += forward ? 1 : 0);
      held -= frees ? 1 : 0;
    }
    summary.activation_peak.push_back(peak);
  }
  return summary;
}

}  // namespace shardbench
