#pragma once
#include "harness/exec/launch_compute.hpp"

namespace shardbench {

/// One op about to start.
struct Launch {
  KernelSet const& kernels;
  Stream& stream;
  Op const& op;
  Operands const& data;
  bool adds;
  OptimizerSettings const& optimizer;
  StepPlace place;
  std::optional<RoutedCounts> const& counts;

  TensorRef const& in(std::size_t i) const { return op.inputs[i]; }
  TensorRef const& out(std::size_t i) const { return op.outputs[i]; }
  Dtype precision() const { return data.program().precision; }
  /// Rows that routing brought here, or `rows` where it has no say.
  std::int64_t rows_here(std::int64_t rows) const { return counts ? counts->total_received() : rows; }
};

/// Turns an op and its operands into a kernel's arguments and starts it.
using LaunchFunction = void (*)(Launch const&);

/// Launcher of an op of convolutional networks and images; nullptr for any other kind.
LaunchFunction vision_launcher(OpKind kind);

}  // namespace shardbench
