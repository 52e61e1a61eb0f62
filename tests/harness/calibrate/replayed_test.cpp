#include "harness/calibrate/replayed.hpp"

#include <gtest/gtest.h>

#include "harness/program/lower.hpp"
#include "harness/program/replay.hpp"

namespace shardbench {
namespace {

/// Communication that takes as long as we say.
class FixedNetwork final : public DurationModel {
 public:
  explicit FixedNetwork(double ms) : ms_(ms) {}
  double compute_ms(StepProgram const&, Op const&, bool) const override { return 0; }
  double collective_ms(StepProgram const&, Op const&) const override { return ms_; }
  double transfer_ms(StepProgram const&, Op const&) const override { return ms_; }

 private:
  double ms_;
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
    FixedNetwork const fast(0), slow(1);
    ReplayedDurations over_fast(fast), over_slow(slow);
    std::vector<StepProgram> programs;
    for (std::int64_t const rank : representative_ranks(e)) {
      programs.push_back(lower(e, rank));
      over_fast.measure_stage(programs.back(), e, *device);
      over_slow.measure_stage(programs.back(), e, *device);
    }
    for (StepProgram const& p : programs)
      for (Segment const& s : p.segments)
        for (Op const& op : s.ops)
          EXPECT_TRUE(op.stream != StreamId::compute || over_fast.compute_ms(p, op, false) > 0);
    SimulationResult const quick = simulate(programs, over_fast), late = simulate(programs, over_slow);
    EXPECT_GT(quick.stages[0].compute_ms, 0);
    EXPECT_GT(late.step_ms, 1);
  }
}

}  // namespace
}  // namespace shardbench
