#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "harness/exec/parity.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {

inline std::string name_of(Experiment const& e) { return fmt::format("{}: {}", e.model.name, command_flags(e)); }

/// Steps of a runner on all ranks have the loss, gradients and weights of the unsharded ones.
inline ParityReport expect_equal_steps(Runner& runner, Experiment const& e, int steps = 2) {
  SCOPED_TRACE(name_of(e));
  ParityReport const report = check_parity(runner, e, runner.device(), world(), steps);
  EXPECT_EQ(report.problem, "");
  EXPECT_LT(report.max_rel_error, report.tolerance) << report.worst;
  return report;
}

/// The same of a runner made for it.
inline ParityReport expect_equal_steps(Experiment const& e, int steps = 2) {
  SCOPED_TRACE(name_of(e));
  auto const device = make_host_device();
  Runner runner(lower(e, world().rank()), *device, world());
  return expect_equal_steps(runner, e, steps);
}

/// And the loss is that of a language model that knows nothing yet.
inline void expect_parity(Experiment const& e, int steps = 2) {
  ParityReport const report = expect_equal_steps(e, steps);
  if (e.scope == Scope::model) {
    EXPECT_GT(report.reference_loss, 0.5 * std::log(static_cast<double>(e.model.vocab))) << name_of(e);
    EXPECT_LT(report.reference_loss, 2 * std::log(static_cast<double>(e.model.vocab))) << name_of(e);
  }
}

}  // namespace shardbench::test
