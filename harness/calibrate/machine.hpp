#pragma once
// What `calibrate` measures of a machine, through the same interfaces that a step runs on.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/calibrate/nccl_review.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/config/experiment.hpp"
#include "harness/config/system_profile.hpp"
#include "harness/program/step_program.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// One product of the grid.
struct GemmSample {
  double m = 0, n = 0, k = 0;
  double us = 0;
};

/// Measured times of one kind of operation: bytes (FLOPs for attention) against microseconds, ascending.
struct MeasuredCurve {
  OpKind kind = OpKind::gemm;
  std::int64_t ranks = 1;  ///< of the group, for communication
  std::vector<NcclPoint> points;
};

/// A level of the network: ranks of one host, or of all.
struct MeasuredLevel {
  std::string name;
  std::int64_t devices = 0;  ///< in one domain, 0: all
  std::vector<MeasuredCurve> curves;
};

/// A step of all ranks, cut along one axis.
struct MeasuredStep {
  std::string_view axis;  ///< tp, dp or pp
  Experiment experiment;
  std::vector<double> ms = {};  ///< median step of each round
  double told_ms = 0;           ///< by its parts, set by `set_excess`
};

/// How long and how much is measured in a round.
struct CalibrationOptions {
  Dtype precision = Dtype::f32;
  double largest_message_bytes = 300e6;
  double seconds_per_curve = 4;     ///< a size that would take longer than its share is left out
  double seconds_per_step = 0.5;    ///< timed, of each whole step of all ranks
  std::int64_t steps_per_axis = 3;  ///< different ones, at most
  std::int64_t ranks_per_host = 1;
};

/// Everything measured, in a round or in all; equal on all ranks.
struct MachineMeasurement {
  std::string device, backend, communication;
  Dtype precision = Dtype::f32;
  std::int64_t ranks = 1, ranks_per_host = 1;
  double memory_bytes = 0;
  double copy_gb_per_s = 0;     ///< read and written bytes together
  double launch_us = 0;         ///< of an empty operation
  double overlap_slowdown = 0;  ///< what products and all-reduces at once take beyond the longer one, as a share of the
                                ///< shorter one: 0 when they hide each other, 1 when one waits for the other, more
                                ///< when they get in each other's way
  StepExcess excess;            ///< 0 until `set_excess`
  std::vector<GemmSample> gemm;
  std::vector<MeasuredCurve> kernels;      ///< of whole layers, products left out
  std::vector<MeasuredProducts> products;  ///< of whole layers
  std::vector<MeasuredLevel> levels;
  std::vector<MeasuredStep> steps;
};

/// Sums and maxima over the ranks of a job.
class RankAgreement {
 public:
  /// `world` moves host memory.
  explicit RankAgreement(Communicator& world);
  double maximum(double value) { return reduce(value, ReduceOp::max); }
  double mean(double value) { return reduce(value, ReduceOp::sum) / world_.size(); }
  void barrier() { world_.barrier(); }
  int ranks() const { return world_.size(); }
  Communicator& world() { return world_; }

 private:
  double reduce(double value, ReduceOp op);
  Communicator& world_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Stream> stream_;
};

/// Copy bandwidth, launch time and the product grid, all ranks at once: what they share they share in a step too.
/// Collective.
void measure_device(Device& device, RankAgreement& agree, CalibrationOptions const& options, MachineMeasurement& out);

/// Times of every kind of operation of whole GPT and LLaMA layers, run as a step runs them, all ranks at once.
/// Collective.
void measure_kernels(Device& device, RankAgreement& agree, CalibrationOptions const& options, MachineMeasurement& out);

/// Each collective's curve over group sizes of each level, all groups at once, and products beside an all-reduce.
/// `world` moves the device's memory. Collective.
void measure_network(Device& device, Communicator& world, RankAgreement& agree, CalibrationOptions const& options,
                     MachineMeasurement& out);

/// Whole steps of all ranks, cut along one axis each. `world` moves the device's memory. Collective.
void measure_steps(Device& device, Communicator& world, RankAgreement& agree, CalibrationOptions const& options,
                   MachineMeasurement& out);

/// One measurement of several rounds, at least one: of everything the median, products and kernels of a size together.
/// What one round has not reached (a large message) comes from the others.
MachineMeasurement median_of(std::vector<MachineMeasurement> const& rounds);

/// The median of the values towards 0 by two standard errors of it, but not beyond: what of it is not chance.
double beyond_chance(std::vector<double> values);

/// Sets `m.excess` to what whole steps take beyond what a profile of their parts tells, the median of the steps of an
/// axis and their rounds less what chance makes of so few: ranks wait for the slowest, and some pieces run slower
/// together than alone.
void set_excess(MachineMeasurement& m);

}  // namespace shardbench
