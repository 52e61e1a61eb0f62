#include "harness/exec/runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/comm/verify.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/lane.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

std::uint32_t number_of(LabelId label) { return static_cast<std::uint32_t>(std::int32_t{label}); }

}  // namespace

Runner::Runner(LoweredStage stage, Device& device, Communicator& world, RunnerOptions options)
    : stage_(std::move(stage)),
      program_(stage_.program()),
      device_(device),
      options_(options),
      replay_(stage_.replay()),
      plan_(stage_.memory()),
      arena_(device, plan_.arena_bytes),
      tracker_(plan_.instance_count),
      host_counts_(plan_.instance_count) {
  split_groups(world);
  if (!world.has_tags()) split_edges(world);
  queue(StreamId::compute);
}

Runner::~Runner() = default;

void Runner::split_groups(Communicator& world) {
  for (GroupKind const kind : enum_values<GroupKind>()) {
    Group const& group = program_.groups[kind];
    std::ptrdiff_t const size = std::ssize(group.members);
    if (world.size() == 1 || size == 1) continue;
    int const color = size == 0 ? -1 : static_cast<int>(group.members.front());
    int const position = static_cast<int>(std::ranges::find(group.members, program_.rank) - group.members.begin());
    GroupCalls& mine = groups_[kind];
    mine.communicator = world.split(color, position);
    if (options_.verify_collectives) mine.verifier = world.split(color, position);
    if (mine.communicator)
      VALIDATE(mine.communicator->size() == size,
               fmt::format("group {} has {} ranks, {} expected", group.name, mine.communicator->size(), size));
  }
}

namespace {

/// The pair of neighbours a message crosses: the lower position, or the last one for the way round from last to first.
std::int64_t edge_between(std::int64_t a, std::int64_t b, std::int64_t stages) {
  std::int64_t const low = std::min(a, b), high = std::max(a, b);
  return high - low == 1 ? low : stages - 1;
}

}  // namespace

/// Messages without tags keep their order, so each kind of message between each pair of stages has a communicator of
/// its own: a stage that waits to send never stands before what it has to receive.
void Runner::split_edges(Communicator& world) {
  std::int64_t const stages = program_.degree[Axis::pp];
  if (stages == 1 || world.size() == 1) return;
  std::int64_t const position = program_.coordinate[Axis::pp];
  auto const column = static_cast<int>(program_.groups[GroupKind::pp].members.front());
  for (std::int32_t tag = 0; tag < message_kinds; ++tag)
    for (int part = 0; part < 3; ++part) {
      // Even edges, odd edges, and the one that closes the ring: a rank is in at most one edge of each part.
      std::int64_t edge = part == 2 ? stages - 1 : position % 2 == part ? position : position - 1;
      bool const inside =
          part == 2 ? stages > 2 && (position == 0 || position == stages - 1) : edge >= 0 && edge + 1 < stages;
      int const color = inside ? column * static_cast<int>(stages) + static_cast<int>(edge) : -1;
      auto pair = world.split(color, static_cast<int>(position));
      if (pair) edges_[{tag, edge}] = std::move(pair);
    }
}

Communicator* Runner::channel_of(Op const& op, PreparedCall& call) {
  bool const message = op.kind == OpKind::send || op.kind == OpKind::receive;
  if (!message || edges_.empty()) return groups_[kind_of(op.group)].communicator.get();
  std::int64_t const position = program_.coordinate[Axis::pp], stages = program_.degree[Axis::pp];
  call.peer = op.peer > position ? 1 : 0;
  return edges_.at({op.tag, edge_between(position, op.peer, stages)}).get();
}

StreamQueue& Runner::queue(StreamId stream) {
  auto& q = queues_[stream];
  if (!q) {
    q = std::make_unique<StreamQueue>();
    q->stream = device_.make_stream(stream == StreamId::compute ? StreamKind::compute : StreamKind::comm);
  }
  return *q;
}

void Runner::run_gradients() {
  ++passes_;
  for (std::size_t r = 0; r < replay_.optimizer_begin(); ++r) play(replay_.runs()[r], 0);
}

void Runner::run_optimizer(std::int64_t step) {
  for (std::size_t r = replay_.optimizer_begin(); r < replay_.runs().size(); ++r) play(replay_.runs()[r], step);
}

void Runner::play(Run const& run, std::int64_t step) {
  if (run.transfer) issue(*run.transfer, run, step);
  if (!run.segment) return;
  for (Op const& op : run.segment->ops)
    if (run.runs(op)) issue(op, run, step);
}

void Runner::issue(Op const& op, Run const& run, std::int64_t step) {
  order(op, run);
  if (op.stream != StreamId::compute) return communicate(op, run);
  Stream& stream = *queue(StreamId::compute).stream;
  Operands const operands(program_, plan_, arena_, run.microbatch, position_);
  bool const adds = run.adds(op);
  // Every pass over the data drops other elements.
  StepPlace const place{step, seed_ + 0x9e3779b97f4a7c15ull * passes_};
  std::size_t span = 0;
  if (timeline_) {
    trace_push(Lane::compute, program_.labels[op.label].name.c_str(), op_cost(program_, op, adds).flops);
    span = timeline_->open(Lane::compute, number_of(op.label), run.microbatch, stream);
  }
  if (op.kind == OpKind::fetch_counts)
    fetch_counts(op, run, operands, stream);
  else
    launch_compute(device_.kernels(), stream, op, operands, adds, options_.optimizer, place, counts_of(op, run));
  if (timeline_) {
    timeline_->close(span, stream);
    trace_pop();
  }
  if (watch_) watch_(op, run.microbatch);
}

void Runner::fetch_counts(Op const& op, Run const& run, Operands const& operands, Stream& stream) {
  TensorRef const& counts = op.inputs[0];
  auto& values = host_counts_[plan_.places[counts.id].instance(run.microbatch)];
  values.resize(program_.tensors[counts.id].elements());
  device_.copy_to_host(values.data(), operands.at(counts), values.size() * sizeof(std::int32_t), stream);
  stream.synchronize();
}

std::optional<RoutedCounts> Runner::counts_of(Op const& op, Run const& run) const {
  if (!op.host_dependent) return {};
  auto const& values = host_counts_[plan_.places[op.inputs.back().id].instance(run.microbatch)];
  return RoutedCounts(values, std::ssize(program_.groups[GroupKind::ep].members));
}

void Runner::order(Op const& op, Run const& run) {
  tracker_.begin(op.stream);
  bool const takes_memory = touches(
      op, plan_, [&](MemoryPlan::Place const& place) { tracker_.read(place.instance(run.microbatch)); },
      [&](MemoryPlan::Place const& place) { tracker_.write(place.instance(run.microbatch)); });
  if (takes_memory) tracker_.after_all(StreamId::compute);
  StreamQueue& mine = queue(op.stream);
  tracker_.finish([&](StreamId other, std::int64_t sequence) {
    StreamQueue& theirs = queue(other);
    Event& event = theirs.event(device_, sequence);
    // Compute marks its place only when somebody waits; by then it may stand a little later, never earlier.
    if (other == StreamId::compute) theirs.stream->record(event);
    mine.stream->wait(event);
  });
}

void Runner::communicate(Op const& op, Run const& run) {
  StreamQueue& q = queue(op.stream);
  Group const& group = program_.groups[op.group];
  auto const mark_end = [&] { q.stream->record(q.event(device_, tracker_.issued(op.stream))); };
  if (options_.skip_communication) return mark_end();
  PreparedCall call = prepare_call(op, Operands(program_, plan_, arena_, run.microbatch), counts_of(op, run));
  call.communicator = channel_of(op, call);
  GroupCalls& mine = groups_[kind_of(op.group)];
  VALIDATE(call.communicator, fmt::format("{} on group {} of one rank", to_string(op.kind), group.name));
  call.stream = q.stream.get();
  call.verifier = mine.verifier.get();
  call.group = op.group;
  call.order = mine.made++;
  call.lane = lane_of(group.axis);
  call.label = op.label.valid() ? number_of(op.label) : static_cast<std::uint32_t>(program_.labels.size());
  call.name = op.label.valid() ? std::string_view(program_.labels[op.label].name) : to_string(op.kind);
  call.microbatch = run.microbatch;
  call.timeline = timeline_;
  call.wait_label = wait_label;
  q.stream->submit([call] { call.run(); });
  mark_end();
}

void Runner::synchronize() { device_.synchronize(); }

std::vector<float> Runner::read(TensorId id, std::int32_t microbatch) {
  synchronize();
  return peek(id, microbatch);
}

std::vector<float> Runner::peek(TensorId id, std::int32_t microbatch) {
  Dtype const dtype = program_.tensors[id].dtype;
  if (dtype == Dtype::f32) return take<float>(id, microbatch);
  VALIDATE(dtype == Dtype::bf16, fmt::format("reading {} as float", to_string(dtype)));
  std::vector<Bf16> const raw = take<Bf16>(id, microbatch);
  std::vector<float> values(raw.size());
  std::ranges::transform(raw, values.begin(), [](Bf16 x) { return to_float(x); });
  return values;
}

void Runner::write(TensorId id, std::span<float const> values, std::int32_t microbatch) {
  Tensor const& t = program_.tensors[id];
  VALIDATE(std::ssize(values) == t.elements(),
           fmt::format("{}: {} values for {} elements", t.name, values.size(), t.elements()));
  if (t.dtype == Dtype::f32) return put(id, values, microbatch);
  VALIDATE(t.dtype == Dtype::bf16, fmt::format("writing float to {}", to_string(t.dtype)));
  std::vector<Bf16> raw(values.size());
  std::ranges::transform(values, raw.begin(), [](float x) { return to_bf16(x); });
  put<Bf16>(id, raw, microbatch);
}

double local_loss(Runner& runner) {
  StepProgram const& p = runner.program();
  bool const head = std::ranges::any_of(p.chunks, &Chunk::has_head);
  return p.loss == no_tensor || !head ? 0 : runner.read(p.loss).front();
}

EnumArray<Axis, Traffic> Runner::traffic() const {
  EnumArray<Axis, Traffic> sum{};
  auto const add = [&](Axis axis, Traffic const& t) {
    sum[axis].calls += t.calls;
    sum[axis].payload_bytes += t.payload_bytes;
  };
  for (GroupKind const kind : enum_values<GroupKind>())
    if (groups_[kind].communicator) add(program_.groups[kind].axis, groups_[kind].communicator->traffic());
  for (auto const& [key, edge] : edges_) add(Axis::pp, edge->traffic());
  return sum;
}

}  // namespace shardbench
