#include "harness/program/replay.hpp"

#include <algorithm>

#include "kernels/core/error.hpp"

namespace shardbench {

StreamId pipeline_stream(ActionKind kind, Boundary boundary, std::int32_t direction) {
  int const lane = (kind == ActionKind::receive ? 4 : 0) + (boundary == Boundary::gradient ? 2 : 0) + direction;
  return static_cast<StreamId>(static_cast<int>(StreamId::pipeline) + lane);
}

namespace {

bool sends_output(Action const& action, Action const& forward) {
  return action.kind == ActionKind::send && action.boundary == Boundary::activation && action.chunk == forward.chunk &&
         action.microbatch == forward.microbatch;
}

}  // namespace

Replay::Replay(StepProgram const& program) {
  transfers_.reserve(program.chunks.size() * 4);
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
    run.segment = program.segment_of(kind, chunk);
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
  auto const same = [&](Op const& op) { return op.stream == stream && op.layer == a.chunk; };
  auto it = std::ranges::find_if(transfers_, same);
  if (it == transfers_.end()) {
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
    it = transfers_.end() - 1;
  }
  Run run;
  run.kind = a.kind;
  run.chunk = a.chunk;
  run.microbatch = a.microbatch;
  run.transfer = &*it;
  runs_.push_back(run);
}

void Replay::mark_first_and_last(StepProgram const& program) {
  auto const has_part = [](ActionKind kind, int part) {
    if (kind == ActionKind::backward) return true;
    return kind == (part == 0 ? ActionKind::backward_input : ActionKind::backward_weight);
  };
  auto const mark = [&](auto const& chosen, int part) {
    Run* last = nullptr;
    for (Run& run : runs_) {
      if (!chosen(run)) continue;
      if (!last) run.first[part] = true;
      last = &run;
    }
    if (last) last->last[part] = true;
  };
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(program.chunks.size()); ++c) {
    for (int part = 0; part < 2; ++part) {
      mark([&](Run const& r) { return r.chunk == c && r.segment && has_part(r.kind, part); }, part);
      mark([&](Run const& r) { return r.chunk == c && r.kind == ActionKind::forward; }, part);
      mark([&](Run const& r) { return r.chunk == c && r.kind == ActionKind::reduce; }, part);
    }
  }
  for (Run& r : runs_)
    if (r.kind == ActionKind::optimizer) r.first[0] = r.first[1] = r.last[0] = r.last[1] = true;
}

}  // namespace shardbench
