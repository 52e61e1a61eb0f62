#include "harness/exec/launch_compute.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// What the op's kernel needs besides the op's shape; expert offsets are left out.
Binding bind(Op const& op, Operands const& data, bool adds, OptimizerSettings const& optimizer, StepPlace place) {
  VALIDATE(op.inputs.size() <= Binding::most_operands && op.outputs.size() <= Binding::most_operands,
           fmt::format("{} has more operands than a binding holds", to_string(op.kind)));
  StepProgram const& program = data.program();
  Binding b;
  std::ranges::transform(op.inputs, b.inputs.begin(), [&](TensorRef const& ref) { return data.operand(ref); });
  std::ranges::transform(op.outputs, b.outputs.begin(), [&](TensorRef const& ref) { return data.operand(ref); });
  b.precision = program.precision, b.adds = adds;
  b.position = data.position(), b.context = program.inference.context, b.micro_batch = program.micro_batch;
  // What a window no longer reaches is overwritten: its cache is a ring.
  if (op.kind == OpKind::cache_append)
    b.position %= std::max<std::int64_t>(program.tensors[op.outputs[0].id].rows / program.micro_batch, 1);
  b.seq = program.seq, b.first_sample = program.first_sample + data.microbatch() * program.micro_batch;
  b.vocab = program.vocab;
  b.optimizer = optimizer, b.step = place.step, b.random = place.random;
  return b;
}

// Operations without a kernel of their own, an overload each.

void start(CacheAppend, KernelSet const& kernels, Stream& stream, BlockShape const& shape, Binding const& b) {
  kernels.copy_block(stream, CacheAppend::bind(shape, b));
}

void start(FetchCounts, KernelSet const&, Stream&, RowsShape const&, Binding const&) {
  throw Error("fetch_counts is the runner's: the host waits for what it brings");
}

}  // namespace

void launch_compute(KernelSet const& kernels, Stream& stream, Op const& op, Operands const& operands, bool adds,
                    OptimizerSettings const& optimizer, StepPlace place, std::optional<RoutedCounts> const& counts) {
  Binding b = bind(op, operands, adds, optimizer, place);
  std::vector<std::int32_t> offsets;
  if (counts) {
    offsets = counts->expert_offsets();
    b.routed_rows = counts->total_received(), b.expert_offsets = offsets.data();
  }
  if (op.kind == OpKind::copy_block && adds)
    return kernels.add(stream, CopyBlockArgs::bind_addition(std::get<BlockShape>(op.shape), b));
  switch (op.kind) {
#define SHARDBENCH_LAUNCH(name, Args) \
  case OpKind::name:                  \
    return kernels.name(stream, Args::bind(std::get<Args::Shape>(op.shape), b));
#define SHARDBENCH_START(name, Row) \
  case OpKind::name:                \
    return start(Row{}, kernels, stream, std::get<Row::Shape>(op.shape), b);
    SHARDBENCH_EACH_OPERATION(SHARDBENCH_LAUNCH, SHARDBENCH_START)
#undef SHARDBENCH_LAUNCH
#undef SHARDBENCH_START
    default:
      throw Error(fmt::format("{} is no operation of one rank", to_string(op.kind)));
  }
}

}  // namespace shardbench
