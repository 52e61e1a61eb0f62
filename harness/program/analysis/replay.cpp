#include "harness/program/analysis/replay.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "kernels/core/error.hpp"

namespace shardbench {

StreamId pipeline_stream(ActionKind kind, Boundary boundary, std::int32_t direction) {
  int const lane = (kind == ActionKind::receive ? 4 : 0) + (boundary == Boundary::gradient ? 2 : 0) + direction;
  return static_cast<StreamId>(static_cast<int>(StreamId::pipeline) + lane);
}

namespace {

constexpr std::size_t kinds = static_cast<std::size_t>(ActionKind::size_);
constexpr std::size_t pipeline_streams = stream_count - static_cast<std::size_t>(StreamId::pipeline);

bool sends_output(Action const& action, Action const& forward) {
  return action.kind == ActionKind::send && action.boundary == Boundary::activation && action.chunk == forward.chunk &&
         action.microbatch == forward.microbatch;
}

}  // namespace

Replay::Replay(StepProgram const& program) {
  transfers_.reserve(program.chunks.size() * 4);
  transfer_at_.resize(program.chunks.size() * pipeline_streams, nullptr);
  segment_at_.resize(kinds * (program.chunks.size() + 1), nullptr);
  runs_.reserve(program.actions.size());
  for (std::size_t i = 0; i < program.actions.size(); ++i) {
    Action const& a = program.actions[i];
    switch (a.kind) {
      case ActionKind::pair:
        add_segment(program, ActionKind::forward, a.chunk, a.microbatch);
        // What the forward made leaves before the backward starts.
        if (i + 1 < program.actions.size() && sends_output(program.actions[i + 1], a))
          add_transfer(program, program.actions[++i]);
        add_segment(program, ActionKind::backward, a.pair_chunk, a.pair_microbatch);
        break;
      case ActionKind::send:
      case ActionKind::receive:
        add_transfer(program, a);
        break;
      case ActionKind::optimizer:
        optimizer_begin_ = runs_.size();
        add_segment(program, a.kind, a.chunk, a.microbatch);
        break;
      default:
        add_segment(program, a.kind, a.chunk, a.microbatch);
    }
  }
  if (program.inference) optimizer_begin_ = runs_.size();  // there is none
  mark_first_and_last(program);
}

void Replay::add_segment(StepProgram const& program, ActionKind kind, std::int32_t chunk, std::int32_t microbatch) {
  Run run;
  run.kind = kind;
  run.chunk = chunk;
  run.microbatch = microbatch;
  if (kind != ActionKind::free) {
    auto& known = segment_at_[kinds * static_cast<std::size_t>(chunk + 1) + static_cast<std::size_t>(kind)];
    if (!known) known = program.segment_of(kind, chunk);
    run.segment = known;
    VALIDATE(run.segment, "program has no segment for an action of its schedule");
  }
  runs_.push_back(run);
}

void Replay::add_transfer(StepProgram const& program, Action const& a) {
  Chunk const& chunk = program.chunks[static_cast<std::size_t>(a.chunk)];
  bool const sends = a.kind == ActionKind::send, activation = a.boundary == Boundary::activation;
  TensorId const id =
      sends ? (activation ? chunk.output : chunk.input_gradient) : (activation ? chunk.input : chunk.output_gradient);
  StreamId const stream = pipeline_stream(a.kind, a.boundary, program.direction_of(a.chunk));
  Op const*& known = transfer_at_[pipeline_streams * static_cast<std::size_t>(a.chunk) +
                                  static_cast<std::size_t>(stream) - static_cast<std::size_t>(StreamId::pipeline)];
  if (!known) {
    Tensor const& t = program.tensors[static_cast<std::size_t>(id)];
    Op op;
    op.kind = sends ? OpKind::send : OpKind::receive;
    op.shape = CollectiveShape{t.elements(), t.dtype, PartialOp::sum, static_cast<double>(t.elements())};
    (sends ? op.inputs : op.outputs).push_back({id, 0, 0});
    op.stream = stream;
    op.layer = a.chunk;
    auto const& groups = program.groups;
    op.group = static_cast<std::int32_t>(std::ranges::find(groups, std::string("pp"), &Group::name) - groups.begin());
    op.peer = a.peer;
    op.tag = static_cast<std::int32_t>(stream) - static_cast<std::int32_t>(StreamId::pipeline) - (sends ? 0 : 4);
    op.label = -1;
    EXPECT(transfers_.size() < transfers_.capacity());
    transfers_.push_back(std::move(op));
    known = &transfers_.back();
  }
  Run run;
  run.kind = a.kind;
  run.chunk = a.chunk;
  run.microbatch = a.microbatch;
  run.transfer = known;
  runs_.push_back(run);
}

void Replay::mark_first_and_last(StepProgram const& program) {
  // By chunk and group of kinds that count together.
  enum Together { forwards, reductions, additions, input_parts, weight_parts, together_count };
  std::vector<std::array<Run*, together_count>> last(program.chunks.size());
  auto const meet = [&](Run& run, Together group, std::initializer_list<int> parts) {
    Run*& before = last[static_cast<std::size_t>(run.chunk)][group];
    for (int const part : parts) {
      if (before)
        before->last[part] = false;
      else
        run.first[part] = true;
      run.last[part] = true;
    }
    before = &run;
  };
  for (Run& run : runs_) {
    bool const whole = run.kind == ActionKind::backward;
    if (run.kind == ActionKind::optimizer) run.first[0] = run.first[1] = run.last[0] = run.last[1] = true;
    if (run.chunk < 0 || static_cast<std::size_t>(run.chunk) >= last.size() || !run.segment) continue;
    if (run.kind == ActionKind::forward) meet(run, forwards, {0, 1});
    if (run.kind == ActionKind::reduce) meet(run, reductions, {0, 1});
    if (run.kind == ActionKind::add) meet(run, additions, {0, 1});
    if (whole || run.kind == ActionKind::backward_input) meet(run, input_parts, {0});
    if (whole || run.kind == ActionKind::backward_weight) meet(run, weight_parts, {1});
  }
}

}  // namespace shardbench
