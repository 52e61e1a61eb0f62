#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/exec/agreement.hpp"
#include "harness/exec/parity.hpp"

namespace shardbench {

/// The unsharded program and, on rank 0, a runner of it: what sharded runners are compared with.
struct ParityReference {
  ParityReference(Experiment const& experiment, Device& device, Communicator& world,
                  std::optional<LoweredStage> const& unsharded)
      : stage(unsharded ? *unsharded : lower_unsharded(experiment)), self(make_self_communicator()) {
    if (world.rank() == 0)
      runner.emplace(stage, device, *self, RunnerOptions{.optimizer = {}, .given = given_values(experiment)});
    if (runner) runner->initialize(experiment.seed);
    if (!runner || experiment.precision == Dtype::f32 || experiment.phase != PhaseKind::train) return;
    Experiment wide = experiment;
    wide.precision = wide.gradient_dtype = Dtype::f32;
    exact.emplace(lower_unsharded(wide), device, *self);
    exact->initialize(experiment.seed);
  }
  /// The gradients of the unsharded step in fp32, from the weights that it has now.
  void run_exact() {
    if (!exact) return;
    StepProgram const &rounded = runner->program(), &wide = exact->program();
    for (std::size_t i = 0; i < wide.parameters.size(); ++i)
      exact->write(wide.parameters[i].weight, runner->read(rounded.parameters[i].weight));
    exact->run_gradients();
    exact->synchronize();
  }
  Runner* get() { return runner ? &*runner : nullptr; }

  LoweredStage stage;
  std::unique_ptr<Communicator> self;
  std::optional<Runner> runner;
  std::optional<Runner> exact;  ///< where the step is rounded: one that is not
};

/// What comparisons with the reference have in common: its values on every rank, and the worst error on all of them.
class ParityRecord {
 public:
  ParityRecord(ParityReference& reference, Communicator& world, ParityReport& report)
      : reference_(reference), world_(world), report_(report), agree_(world) {}

  Agreement& ranks() { return agree_; }

  /// `count` values of one of the reference's tensors, from rank 0 to all.
  std::vector<float> broadcast(TensorId id, std::int64_t count, std::int32_t microbatch = 0) {
    return broadcast_from(reference_.get(), id, count, microbatch);
  }
  /// The same of another runner that rank 0 has, nullptr on the others.
  std::vector<float> broadcast_from(Runner* runner, TensorId id, std::int64_t count, std::int32_t microbatch = 0) {
    std::vector<float> values(count);
    if (runner) values = runner->read(id, microbatch);
    world_.broadcast({values.data(), values.size(), Dtype::f32}, 0, stream_);
    return values;
  }

  /// |a - b| / (|b| + scale), infinite where it is not finite.
  static double error_of(float a, float b, double scale) {
    double const error =
        std::abs(static_cast<double>(a) - static_cast<double>(b)) / (std::abs(static_cast<double>(b)) + scale);
    return std::isfinite(error) ? error : HUGE_VAL;
  }

  /// Keeps an error that is the worst so far, and what it is of.
  template <class Where>
  void keep_worst(double error, Where where) {
    if (error <= report_.max_rel_error) return;
    report_.max_rel_error = error;
    report_.worst = where();
  }

  /// Every rank learns the worst error and where it was.
  void agree() {
    double const worst = report_.max_rel_error;
    for (double* const error : {&report_.loss_error, &report_.gradient_error, &report_.weight_error})
      *error = agree_.maximum(*error);
    report_.max_rel_error = agree_.maximum(worst);
    report_.worst = agree_.first_text(worst == report_.max_rel_error ? report_.worst : "");
    report_.problem = agree_.first_text(report_.problem);
  }

 private:
  ParityReference& reference_;
  Communicator& world_;
  ParityReport& report_;
  Agreement agree_;
  InlineStream stream_;
};

}  // namespace shardbench
