#include <algorithm>
#include <optional>
#include <string_view>

#include "harness/calibrate/machine.hpp"
#include "harness/calibrate/profile_text.hpp"
#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "harness/program/lower.hpp"
#include "harness/simulate/predict.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// A step of all ranks, cut along one axis.
struct Cut {
  char const *model, *seq, *axis, *zero;
};
constexpr Cut cuts[] = {{"gpt2", "32", "tp", "0"},  {"gpt2", "128", "tp", "0"},       {"gpt2-medium", "64", "tp", "0"},
                        {"gpt2", "128", "dp", "0"}, {"smollm-360m", "64", "dp", "1"}, {"gpt2-medium", "64", "dp", "0"},
                        {"gpt2", "128", "pp", "0"}, {"smollm-360m", "64", "pp", "0"}, {"gpt2-medium", "64", "pp", "0"}};

Experiment step_of(Cut const& cut, int ranks, CalibrationOptions const& options) {
  Experiment e;
  set_field(e, "model", cut.model);
  set_field(e, "seq", cut.seq);
  set_field(e, "scope", "layer");
  set_field(e, "layers", std::to_string(std::max(2, cut.axis == std::string_view("pp") ? ranks : 2)));
  set_field(e, cut.axis, std::to_string(ranks));
  set_field(e, "zero", cut.zero);
  set_field(e, "global-batch", std::to_string(2 * ranks));
  set_field(e, "precision", to_string(options.precision));
  e.max_iterations = options.step_iterations, e.max_seconds = 1.2, e.warmup = 1;
  resolve(e);
  return e;
}

/// The median over the cuts of an axis that are legal for so many ranks; 0 when none is.
double excess(std::string_view axis, CostModel const& model, Device& device, Communicator& world, RankAgreement& agree,
              CalibrationOptions const& options) {
  std::vector<double> shares;
  for (Cut const& cut : cuts) {
    std::optional<Experiment> e;
    try {
      if (axis == cut.axis) e = step_of(cut, world.size(), options);
    } catch (InputError const&) {
      // All ranks come here: the cut is the same everywhere.
    }
    if (!e) continue;
    Runner runner(lower(*e, world.rank()), device, world);
    double const measured_ms = agree.mean(measure(runner, *e, device, agree.world()).step_ms.median);
    shares.push_back(measured_ms / predict_step(*e, model).step_ms - 1);
  }
  if (shares.empty()) return 0;
  std::ranges::sort(shares);
  return 0.5 * (shares[(shares.size() - 1) / 2] + shares[shares.size() / 2]);
}

}  // namespace

void measure_steps(Device& device, Communicator& world, RankAgreement& agree, CalibrationOptions const& options,
                   MachineMeasurement& out) {
  if (world.size() < 2) return;
  CostModel const model(make_profile(out, "parts").profile, load_stack("ours"));
  auto const of = [&](std::string_view axis) { return excess(axis, model, device, world, agree, options); };
  out.excess = {of("tp"), of("dp"), of("pp")};
}

}  // namespace shardbench
