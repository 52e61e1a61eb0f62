// A step as one CUDA graph.
#include <algorithm>

#include "harness/exec/runner.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::string Runner::graph_problem() const {
  if (std::string problem = device_.graph_problem(); !problem.empty()) return problem;
  if (options_.verify_collectives) return "--verify-collectives needs the host between operations";
  for (Segment const& segment : program_.segments)
    for (Op const& op : segment.ops)
      if (op.host_dependent)
        return "the step's " + std::string(to_string(op.kind)) + " needs values on the host (routed experts)";
  return {};
}

/// An event of a capture means nothing outside of it, nor the other way round. Everything is waited for here instead,
/// so that no later op looks for an earlier one.
void Runner::forget_order() {
  synchronize();
  tracker_ = HazardTracker(plan_.instance_count);
}

void Runner::capture_graph(std::int64_t step) {
  std::string const problem = graph_problem();
  VALIDATE(problem.empty(), problem);
  graph_.reset();
  forget_order();
  std::vector<Stream*> others;
  for (StreamId const s : enum_values<StreamId>())
    if (queues_[s] && s != StreamId::compute) others.push_back(queues_[s]->stream.get());
  Stream& compute = *queue(StreamId::compute).stream;
  std::vector<std::unique_ptr<Event>> events;  // to the end of the capture
  auto const mark = [&](Stream& from, Stream& to) {
    events.push_back(device_.make_event(false));
    from.record(*events.back());
    to.wait(*events.back());
  };
  graph_ = device_.capture(compute, [&] {
    for (Stream* const other : others) mark(compute, *other);
    run_gradients();
    run_optimizer(step);
    for (Stream* const other : others) mark(*other, compute);
  });
  forget_order();
}

void Runner::launch_graph() {
  VALIDATE(graph_, "no graph was captured");
  Stream& compute = *queue(StreamId::compute).stream;
  graph_->launch(compute);
  auto const talks =
      std::ranges::find_if(groups_, [](GroupCalls const& group) { return group.communicator != nullptr; });
  if (talks != groups_.end()) talks->communicator->watch(compute, "the step's CUDA graph");
}

}  // namespace shardbench
