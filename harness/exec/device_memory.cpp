#include "harness/exec/device_memory.hpp"

#include <algorithm>

#include "kernels/kernel_set.hpp"

namespace shardbench {

double bytes_beside_arena(StepProgram const& program, Device& device) {
  double const own = device.info().stream_bytes;
  KernelSet const& kernels = device.kernels();
  if (!kernels.attention_workspace) return own;
  auto const stream = device.make_stream(StreamKind::compute);
  std::size_t most = 0;
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (auto const* s = std::get_if<AttentionOpShape>(&op.shape); s && op.kind != OpKind::attention_merge)
        most = std::max(most, kernels.attention_workspace(*stream, attention_shape(*s, program.precision),
                                                          op.kind == OpKind::attention_backward));
  return own + static_cast<double>(most);
}

}  // namespace shardbench
