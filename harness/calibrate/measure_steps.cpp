#include <algorithm>
#include <string_view>
#include <vector>

#include "harness/calibrate/machine.hpp"
#include "harness/calibrate/profile_text.hpp"
#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "harness/program/passes/lower.hpp"
#include "harness/simulate/predict.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// A step of all ranks, cut along one axis.
struct Cut {
  char const *model, *seq, *axis, *zero;
};
// Axis after axis, so that a change of the machine's pace meets all of them.
constexpr Cut cuts[] = {
    {"gpt2", "32", "tp", "0"},        {"gpt2", "128", "dp", "0"},       {"gpt2", "128", "pp", "0"},
    {"gpt2", "128", "tp", "0"},       {"smollm-360m", "64", "dp", "1"}, {"smollm-360m", "64", "pp", "0"},
    {"gpt2-medium", "64", "tp", "0"}, {"gpt2-medium", "64", "dp", "0"}, {"gpt2-medium", "64", "pp", "0"}};

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
  e.max_seconds = options.seconds_per_step, e.warmup = 2;
  resolve(e);
  return e;
}

/// The share by which compute must take longer than its parts for the step to take what it took. Communication was
/// measured between the same ranks as it is: on a slow link it is most of a step, and would drown what compute lost.
double compute_share(Experiment const& e, double measured_ms, SystemProfile profile, SoftwareStack const& stack) {
  constexpr double trial = 0.25, most = 2, least = -0.5;
  auto const told_ms = [&](double share) {
    profile.device.excess = {share, share, share};
    return predict_step(e, CostModel(profile, stack), {.record_spans = false}).step_ms;
  };
  double const parts_ms = told_ms(0), rise_ms = told_ms(trial) - parts_ms;
  return rise_ms <= 0 ? 0 : std::clamp(trial * (measured_ms - parts_ms) / rise_ms, least, most);
}

/// The steps that are legal for so many ranks: all ranks find the same ones.
std::vector<MeasuredStep> steps_of(int ranks, CalibrationOptions const& options) {
  std::vector<MeasuredStep> steps;
  for (Cut const& cut : cuts) {
    if (std::ranges::count(steps, std::string_view(cut.axis), &MeasuredStep::axis) >= options.steps_per_axis) continue;
    try {
      steps.push_back({.axis = cut.axis, .experiment = step_of(cut, ranks, options)});
    } catch (InputError const&) {
      continue;  // not a legal cut
    }
  }
  return steps;
}

/// The median over the steps of an axis and their rounds, as far as it is beyond two standard errors of it: on a
/// machine whose pace varies the share of few steps is mostly chance, and worse than none. 0 when there are none.
double excess(std::string_view axis, std::vector<MeasuredStep> const& steps, SystemProfile const& parts,
              SoftwareStack const& stack) {
  std::vector<double> shares;
  for (MeasuredStep const& step : steps)
    if (step.axis == axis)
      for (double const ms : step.ms) shares.push_back(compute_share(step.experiment, ms, parts, stack));
  return beyond_chance(std::move(shares));
}

}  // namespace

void measure_steps(Device& device, Communicator& world, RankAgreement& agree, CalibrationOptions const& options,
                   MachineMeasurement& out) {
  if (world.size() < 2) return;
  out.steps = steps_of(world.size(), options);
  for (MeasuredStep& step : out.steps) {
    Runner runner(lower(step.experiment, world.rank()), device, world);
    step.ms = {agree.mean(measure(runner, step.experiment, device, agree.world()).step_ms.median)};
  }
}

void set_excess(MachineMeasurement& m) {
  m.excess = {};
  SystemProfile const parts = make_profile(m, "parts").profile;
  SoftwareStack const stack = load_stack("ours");
  for (MeasuredStep& step : m.steps)
    step.told_ms = predict_step(step.experiment, CostModel(parts, stack), {.record_spans = false}).step_ms;
  auto const of = [&](std::string_view axis) { return excess(axis, m.steps, parts, stack); };
  m.excess = {of("tp"), of("dp"), of("pp")};
}

}  // namespace shardbench
