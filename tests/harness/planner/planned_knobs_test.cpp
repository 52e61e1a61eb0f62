#include <gtest/gtest.h>

#include "harness/config/knob.hpp"
#include "harness/planner/plan_space.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

TEST(PlanAxes, AreTheKnobsThatTheTableSaysArePlanned) {
  Experiment const defaults;
  for (Knob const& knob : knobs()) {
    PlanAxes axes;
    std::string const demand = knob.flag + "=" + knob.get(defaults);
    if (knob.planned)
      EXPECT_NO_THROW(fix_axis(axes, demand)) << demand;
    else
      EXPECT_THROW(fix_axis(axes, demand), InputError) << demand;
  }
}

}  // namespace
}  // namespace shardbench
