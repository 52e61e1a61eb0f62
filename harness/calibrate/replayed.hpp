#pragma once
#include <map>

#include "harness/config/experiment.hpp"
#include "harness/simulate/simulate.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// Compute as measured on one device, communication as a model tells it: one device speaks for a cluster.
class ReplayedDurations final : public DurationModel {
 public:
  /// `network` must outlive this.
  explicit ReplayedDurations(DurationModel const& network) : network_(network) {}

  /// Runs the program of one rank of a stage with its communication left out and keeps the times of its operations.
  /// Throws IllegalConfig for a program without kernels or whose work depends on what it would have received (routed
  /// tokens), OutOfMemory.
  void measure_stage(LoweredStage const& stage, Experiment const& experiment, Device& device);

  double compute_ms(StepProgram const& program, Op const& op, bool adds) const override;
  double collective_ms(StepProgram const& program, Op const& op) const override {
    return network_.collective_ms(program, op);
  }
  double transfer_ms(StepProgram const& program, Op const& op) const override {
    return network_.transfer_ms(program, op);
  }
  LinkUse link_use(StepProgram const& program, Op const& op) const override { return network_.link_use(program, op); }
  double slowdown_beside_communication() const override { return network_.slowdown_beside_communication(); }
  double stall_beside_compute() const override { return network_.stall_beside_compute(); }
  bool host_awaits_messages() const override { return network_.host_awaits_messages(); }
  bool receives_ahead(StepProgram const& program) const override { return network_.receives_ahead(program); }

 private:
  DurationModel const& network_;
  std::map<std::int64_t, std::vector<double>> label_ms_;  ///< [stage][label] mean of a call
};

}  // namespace shardbench
