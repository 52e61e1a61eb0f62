#include "harness/exec/runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/comm/verify.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

Lane lane_of(Axis axis) {
  constexpr std::array<Lane, axis_count> lanes{Lane::tp, Lane::cp, Lane::dp, Lane::pp, Lane::ep};
  return lanes[static_cast<std::size_t>(axis)];
}

std::ptrdiff_t pipeline_group(StepProgram const& program) {
  return std::ranges::find(program.groups, std::string("pp"), &Group::name) - program.groups.begin();
}

}  // namespace

Runner::Runner(StepProgram program, Device& device, Communicator& world, RunnerOptions options)
    : program_(std::move(program)),
      device_(device),
      options_(options),
      replay_(program_),
      plan_(plan_memory(program_, replay_)),
      arena_(device, static_cast<std::size_t>(plan_.arena_bytes)),
      tracker_(static_cast<std::size_t>(plan_.instance_count)),
      host_counts_(static_cast<std::size_t>(plan_.instance_count)) {
  split_groups(world);
  if (world.backend() == "nccl") split_edges(world);
  queue(StreamId::compute);
}

Runner::~Runner() = default;

void Runner::split_groups(Communicator& world) {
  for (Group const& group : program_.groups) {
    auto const size = static_cast<std::int64_t>(group.members.size());
    calls_.push_back(0);
    if (world.size() == 1 || size == 1) {
      groups_.push_back(nullptr);
      verifiers_.push_back(nullptr);
      continue;
    }
    int const color = size == 0 ? -1 : static_cast<int>(group.members.front());
    auto const position = std::ranges::find(group.members, program_.rank) - group.members.begin();
    groups_.push_back(world.split(color, static_cast<int>(position)));
    verifiers_.push_back(options_.verify_collectives ? world.split(color, static_cast<int>(position)) : nullptr);
    if (groups_.back())
      VALIDATE(groups_.back()->size() == size,
               fmt::format("group {} has {} ranks, {} expected", group.name, groups_.back()->size(), size));
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
  std::int64_t const stages = program_.degree[static_cast<std::size_t>(Axis::pp)];
  if (stages == 1 || world.size() == 1) return;
  std::int64_t const position = program_.coordinate[static_cast<std::size_t>(Axis::pp)];
  auto const column =
      static_cast<int>(program_.groups[static_cast<std::size_t>(pipeline_group(program_))].members.front());
  for (std::int32_t tag = 0; tag < 4; ++tag)
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
  if (!message || edges_.empty()) return groups_[static_cast<std::size_t>(op.group)].get();
  std::int64_t const position = program_.coordinate[static_cast<std::size_t>(Axis::pp)],
                     stages = program_.degree[static_cast<std::size_t>(Axis::pp)];
  call.peer = op.peer > position ? 1 : 0;
  return edges_.at({op.tag, edge_between(position, op.peer, stages)}).get();
}

StreamQueue& Runner::queue(StreamId stream) {
  auto& q = queues_[static_cast<std::size_t>(stream)];
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
  if (op.stream != StreamId::compute) {
    communicate(op, run);
    return;
  }
  Stream& stream = *queue(StreamId::compute).stream;
  Operands const operands(program_, plan_, arena_, run.microbatch, position_);
  bool const adds = run.adds(op);
  // Every pass over the data drops other elements.
  StepPlace const place{step, seed_ + 0x9e3779b97f4a7c15ull * passes_};
  auto const launch = [&] {
    if (op.kind == OpKind::fetch_counts)
      fetch_counts(op, run, operands, stream);
    else
      launch_compute(device_.kernels(), stream, op, operands, adds, options_.optimizer, place, counts_of(op, run));
  };
  if (!timeline_) {
    launch();
    return;
  }
  OpLabel const& label = program_.labels[static_cast<std::size_t>(op.label)];
  trace_push(Lane::compute, label.name.c_str(), op_cost_flops(program_, op, adds));
  std::size_t const span = timeline_->open(Lane::compute, static_cast<std::uint32_t>(op.label), run.microbatch, stream);
  launch();
  timeline_->close(span, stream);
  trace_pop();
}

void Runner::fetch_counts(Op const& op, Run const& run, Operands const& operands, Stream& stream) {
  TensorRef const& counts = op.inputs[0];
  auto& values = host_counts_[static_cast<std::size_t>(plan_.instance_of(counts.id, run.microbatch))];
  values.resize(static_cast<std::size_t>(program_.tensors[static_cast<std::size_t>(counts.id)].elements()));
  device_.copy_to_host(values.data(), operands.at(counts), values.size() * sizeof(std::int32_t), stream);
  stream.synchronize();
}

std::optional<RoutedCounts> Runner::counts_of(Op const& op, Run const& run) const {
  if (!op.host_dependent) return {};
  auto const& values = host_counts_[static_cast<std::size_t>(plan_.instance_of(op.inputs.back().id, run.microbatch))];
  auto const ep = std::ranges::find(program_.groups, std::string("ep"), &Group::name);
  return RoutedCounts(values, static_cast<std::int64_t>(ep->members.size()));
}

void Runner::order(Op const& op, Run const& run) {
  tracker_.begin(op.stream);
  bool takes_memory = false;
  for (auto const* refs : {&op.inputs, &op.after})
    for (TensorRef const& ref : *refs)
      if (ref.valid()) tracker_.read(plan_.instance_of(ref.id, run.microbatch));
  for (TensorRef const& ref : op.outputs) {
    if (!ref.valid()) continue;
    tracker_.write(plan_.instance_of(ref.id, run.microbatch));
    takes_memory = takes_memory || plan_.places[static_cast<std::size_t>(ref.id)].residence == Residence::temporary;
  }
  if (takes_memory && op.stream != StreamId::compute) tracker_.after_all(StreamId::compute);
  StreamQueue& mine = queue(op.stream);
  tracker_.finish([&](StreamId other, std::int64_t sequence) {
    StreamQueue& theirs = queue(other);
    if (other == StreamId::compute) {
      // Compute marks its place only when somebody waits; by then it may stand a little later, never earlier.
      Event& event = theirs.event(device_, sequence);
      theirs.stream->record(event);
      mine.stream->wait(event);
      return;
    }
    mine.stream->wait(theirs.event(device_, sequence));
  });
}

void Runner::communicate(Op const& op, Run const& run) {
  StreamQueue& q = queue(op.stream);
  Group const& group = program_.groups[static_cast<std::size_t>(op.group)];
  auto const index = static_cast<std::size_t>(op.group);
  if (options_.skip_communication) {
    q.stream->record(q.event(device_, tracker_.issued(op.stream)));
    return;
  }
  PreparedCall call = prepare_call(op, Operands(program_, plan_, arena_, run.microbatch), counts_of(op, run));
  call.communicator = channel_of(op, call);
  VALIDATE(call.communicator, fmt::format("{} on group {} of one rank", to_string(op.kind), group.name));
  call.stream = q.stream.get();
  call.verifier = verifiers_[index].get();
  call.group_name = index;
  call.order = calls_[index]++;
  call.lane = lane_of(group.axis);
  call.label = op.label < 0 ? transfer_label() : static_cast<std::uint32_t>(op.label);
  call.name =
      op.label < 0 ? to_string(op.kind) : std::string_view(program_.labels[static_cast<std::size_t>(op.label)].name);
  call.microbatch = run.microbatch;
  call.timeline = timeline_;
  call.wait_label = wait_label;
  q.stream->submit([call] { call.run(); });
  q.stream->record(q.event(device_, tracker_.issued(op.stream)));
}

void Runner::synchronize() { device_.synchronize(); }

std::vector<float> Runner::read(TensorId id, std::int32_t microbatch) {
  synchronize();
  Tensor const& t = program_.tensors[static_cast<std::size_t>(id)];
  void const* const from = Operands(program_, plan_, arena_, microbatch).at({id, 0, 0});
  Stream& stream = *queue(StreamId::compute).stream;
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  if (t.dtype == Dtype::f32) {
    device_.copy_to_host(values.data(), from, values.size() * sizeof(float), stream);
    stream.synchronize();
    return values;
  }
  VALIDATE(t.dtype == Dtype::bf16, fmt::format("reading {} as float", to_string(t.dtype)));
  std::vector<Bf16> raw(values.size());
  device_.copy_to_host(raw.data(), from, raw.size() * sizeof(Bf16), stream);
  stream.synchronize();
  std::ranges::transform(raw, values.begin(), [](Bf16 x) { return to_float(x); });
  return values;
}

void Runner::write(TensorId id, std::span<float const> values, std::int32_t microbatch) {
  Tensor const& t = program_.tensors[static_cast<std::size_t>(id)];
  VALIDATE(static_cast<std::int64_t>(values.size()) == t.elements(),
           fmt::format("{}: {} values for {} elements", t.name, values.size(), t.elements()));
  void* const to = Operands(program_, plan_, arena_, microbatch).at({id, 0, 0});
  Stream& stream = *queue(StreamId::compute).stream;
  if (t.dtype == Dtype::f32) {
    device_.copy_from_host(to, values.data(), values.size() * sizeof(float), stream);
    stream.synchronize();
    return;
  }
  VALIDATE(t.dtype == Dtype::bf16, fmt::format("writing float to {}", to_string(t.dtype)));
  std::vector<Bf16> raw(values.size());
  std::ranges::transform(values, raw.begin(), [](float x) { return to_bf16(x); });
  device_.copy_from_host(to, raw.data(), raw.size() * sizeof(Bf16), stream);
  stream.synchronize();
}

double Runner::local_loss() {
  bool const head = std::ranges::any_of(program_.chunks, &Chunk::has_head);
  if (program_.loss == no_tensor || !head) return 0;
  return read(program_.loss).front();
}

std::array<Traffic, axis_count> Runner::traffic() const {
  std::array<Traffic, axis_count> sum{};
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g]) continue;
    Traffic const t = groups_[g]->traffic();
    auto& axis = sum[static_cast<std::size_t>(program_.groups[g].axis)];
    axis.calls += t.calls;
    axis.payload_bytes += t.payload_bytes;
  }
  for (auto const& [key, edge] : edges_) {
    Traffic const t = edge->traffic();
    auto& axis = sum[static_cast<std::size_t>(Axis::pp)];
    axis.calls += t.calls;
    axis.payload_bytes += t.payload_bytes;
  }
  return sum;
}

}  // namespace shardbench
