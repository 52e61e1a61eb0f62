#include "harness/program/analysis/replay.hpp"

#include <array>
#include <initializer_list>

#include "harness/schedule/actions.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

StreamId pipeline_stream(ActionKind kind, Boundary boundary, std::int32_t direction) {
  StreamId const first = kind == ActionKind::receive ? first_receive : StreamId::pipeline;
  return static_cast<StreamId>(static_cast<int>(first) + (boundary == Boundary::gradient ? 2 : 0) + direction);
}

Replay::Replay(StepProgram const& program) {
  transfers_.reserve(program.chunks.size() * 4);
  transfer_at_.resize(program.chunks.size());
  segment_at_.resize(program.chunks.size() + 1);
  runs_.reserve(program.actions.size());
  for (std::int32_t c = 0; c < std::ssize(program.chunks); ++c) directions_.push_back(program.direction_of(c));
  each_without_pairs(program.actions, [&](Action const& a) {
    if (a.kind == ActionKind::optimizer) optimizer_begin_ = runs_.size();
    is_transfer(a) ? add_transfer(program, a) : add_segment(program, a.kind, a.chunk, a.microbatch);
  });
  if (program.inference.on) optimizer_begin_ = runs_.size();  // there is none
  mark_first_and_last(program);
}

void Replay::add_segment(StepProgram const& program, ActionKind kind, std::int32_t chunk, std::int32_t microbatch) {
  Run& run = add_run(kind, chunk, microbatch);
  if (kind == ActionKind::free) return;
  Segment const*& known = segment_at_[chunk + 1][kind];
  if (!known) known = program.segment_of(kind, chunk);
  VALIDATE(known, "program has no segment for an action of its schedule");
  run.segment = known;
}

void Replay::add_transfer(StepProgram const& program, Action const& a) {
  Chunk const& chunk = program.chunks[a.chunk];
  bool const sends = a.kind == ActionKind::send, activation = a.boundary == Boundary::activation;
  TensorId const id =
      sends ? (activation ? chunk.output : chunk.input_gradient) : (activation ? chunk.input : chunk.output_gradient);
  StreamId const stream = pipeline_stream(a.kind, a.boundary, directions_[a.chunk]);
  Op const*& known = transfer_at_[a.chunk][stream];
  if (!known) {
    Tensor const& t = program.tensors[id];
    Op op;
    op.kind = sends ? OpKind::send : OpKind::receive;
    op.shape = CollectiveShape{t.elements(), t.dtype, PartialOp::sum, static_cast<double>(t.elements())};
    (sends ? op.inputs : op.outputs).push_back({id});
    op.stream = stream;
    op.layer = a.chunk;
    op.group = id_of(GroupKind::pp);
    op.peer = a.peer;
    op.tag = message_kind(stream);
    op.label = LabelId();
    EXPECT(transfers_.size() < transfers_.capacity());
    transfers_.push_back(std::move(op));
    known = &transfers_.back();
  }
  add_run(a.kind, a.chunk, a.microbatch).transfer = known;
}

void Replay::mark_first_and_last(StepProgram const& program) {
  // By chunk and group of kinds that count together.
  enum Together { forwards, reductions, additions, input_parts, weight_parts, together_count };
  std::vector<std::array<Run*, together_count>> last(program.chunks.size());
  using enum BackwardPart;
  auto const meet = [&](Run& run, Together group, std::initializer_list<BackwardPart> parts) {
    Run*& before = last[run.chunk][group];
    for (BackwardPart const part : parts) {
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
    if (run.kind == ActionKind::optimizer) run.first = run.last = {{true, true}};
    if (run.chunk < 0 || run.chunk >= std::ssize(last) || !run.segment) continue;
    if (run.kind == ActionKind::forward) meet(run, forwards, {input, weight});
    if (run.kind == ActionKind::reduce) meet(run, reductions, {input, weight});
    if (run.kind == ActionKind::add) meet(run, additions, {input, weight});
    if (whole || run.kind == ActionKind::backward_input) meet(run, input_parts, {input});
    if (whole || run.kind == ActionKind::backward_weight) meet(run, weight_parts, {weight});
  }
}

}  // namespace shardbench
