#pragma once
#include <optional>
#include <string>

#include "harness/config/experiment.hpp"
#include "harness/exec/runner.hpp"

namespace shardbench {

/// How far a sharded step is from the unsharded one.
struct ParityReport {
  double max_rel_error = 0;  ///< largest |a-b| / |b| in norm over loss, tensors of gradients and updated weights
  double loss_error = 0, gradient_error = 0, weight_error = 0;
  double loss = 0, reference_loss = 0;
  double tolerance = 0;
  std::string worst;    ///< the tensor with the largest error
  std::string problem;  ///< empty outputs, NaN; empty when there are none
  bool passed() const { return problem.empty() && max_rel_error <= tolerance; }
};

/// What max_rel_error may be: float sums in another order (fp32), or rounding of stored activations (bf16).
double parity_tolerance(Dtype precision);

/// Runs `steps` steps sharded on all ranks of `world` and unsharded on rank 0, both on devices like `device`, and
/// compares after each: loss, every gradient, and, with the optimizer fed the reference's gradients, every weight.
/// Collective; all ranks get the same report. The runner's weights are initialised anew. `unsharded`: the experiment's
/// unsharded step, where it is lowered already.
ParityReport check_parity(Runner& sharded, Experiment const& experiment, Device& device, Communicator& world,
                          int steps = 2, std::optional<LoweredStage> const& unsharded = {});

/// The same for prefill or decode: logits of the last position and the tokens chosen, decoding the first positions one
/// after the other with the cache. loss_error is that of the logits.
ParityReport check_inference(Runner& sharded, Experiment const& experiment, Device& device, Communicator& world,
                             std::optional<LoweredStage> const& unsharded = {});

}  // namespace shardbench
