#include "harness/calibrate/replayed.hpp"

#include <gtest/gtest.h>

#include "harness/program/analysis/replay.hpp"
#include "harness/program/passes/lower.hpp"

namespace shardbench {
namespace {

/// Communication that takes as long as we say.
struct FixedNetwork final : DurationModel {
  double compute_ms(StepProgram const&, Op const&, bool) const override { return 0; }
  double collective_ms(StepProgram const&, Op const&) const override { return ms; }
  double transfer_ms(StepProgram const&, Op const&) const override { return ms; }

  double ms = 0;
};

Experiment step_of(std::initializer_list<std::pair<char const*, char const*>> cut) {
  Experiment e;
  for (auto const& [flag, text] :
       {std::pair{"model", "gpt2"}, std::pair{"layers", "2"}, std::pair{"seq", "16"}, std::pair{"scope", "layer"},
        std::pair{"warmup", "1"}, std::pair{"max-iterations", "2"}})
    set_field(e, flag, text);
  for (auto const& [flag, text] : cut) set_field(e, flag, text);
  resolve(e);
  return e;
}

// Any degree of tp, pp and dp on one device: every compute op has a time, communication has the network's.
TEST(Replayed, OneDeviceSpeaksForACluster) {
  auto const device = make_host_device();
  for (Experiment const& e :
       {step_of({{"tp", "4"}, {"sequence-parallel", "true"}}), step_of({{"pp", "2"}, {"global-batch", "4"}}),
        step_of({{"dp", "4"}, {"zero", "3"}}), step_of({{"dp", "2"}, {"tp", "2"}})}) {
    FixedNetwork network;
    ReplayedDurations durations(network);
    std::vector<StepProgram> programs;
    for (std::int64_t const rank : representative_ranks(e)) {
      programs.push_back(lower(e, rank));
      durations.measure_stage(programs.back(), e, *device);
    }
    for (StepProgram const& p : programs)
      for (Segment const& s : p.segments)
        for (Op const& op : s.ops)
          EXPECT_TRUE(op.stream != StreamId::compute || durations.compute_ms(p, op, false) > 0);
    SimulationResult const quick = simulate(programs, durations);
    network.ms = 1e3;
    SimulationResult const late = simulate(programs, durations);
    EXPECT_GT(quick.stages[0].compute_ms, 0);
    EXPECT_GT(late.step_ms, 1e3);
  }
}

}  // namespace
}  // namespace shardbench
