// Products and collectives cut in pieces along the tokens give the numbers of the whole ones.
#include "tests/harness/exec/expect_parity.hpp"

namespace shardbench::test {
namespace {

Cut chunked(Cut p, bool sequence_parallel, std::int64_t chunks = 4) {
  p.tp_overlap = TpOverlap::chunked;
  p.tp_overlap_chunks = chunks;
  p.sequence_parallel = sequence_parallel;
  return p;
}

TEST(TensorOverlap, EveryNumberOfPieces) {
  std::int64_t const n = world().size();
  for (bool const sp : {false, true})
    for (std::int64_t const chunks : {2, 3, 4, 100}) {  // more pieces than tokens: as many as there are tokens
      expect_parity(small_experiment(small_gpt(2), chunked(cut(1, n, 1), sp, chunks)));
      if (chunks == 4) expect_parity(small_experiment(small_llama(2), chunked(cut(1, n, 1), sp, chunks)));
    }
}

TEST(TensorOverlap, WithOtherAxesRecomputeAndStates) {
  std::int64_t const n = world().size();
  for (bool const sp : {false, true}) {
    Cut p = chunked(cut(n / 2, 2, 1), sp);
    p.zero_stage = n > 2 ? 3 : 0;
    expect_parity(small_experiment(small_llama(2), p));
    p.zero_stage = 0;
    p.recompute = Recompute::full;
    Experiment e = small_experiment(small_gpt(2), p);
    e.precision = Dtype::bf16;
    e.dropout = 0.1;
    expect_parity(e);
    if (n == 2) continue;
    for (ScheduleKind const schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::dualpipe})
      expect_parity(small_experiment(small_llama(4), chunked(cut(1, n / 2, 2, schedule), sp)));
  }
}

TEST(TensorOverlap, MovesTheBytesOfTheWholeProducts) {
  for (bool const sp : {false, true}) {
    Experiment const whole = small_experiment(small_llama(2), [&] {
      Cut p = cut(1, world().size(), 1);
      p.sequence_parallel = sp;
      return p;
    }());
    Experiment const pieces = small_experiment(small_llama(2), chunked(cut(1, world().size(), 1), sp));
    StepProgram const a = lower(whole, world().rank()), b = lower(pieces, world().rank());
    StepCount const ca = count_step(a, Replay(a)), cb = count_step(b, Replay(b));
    EXPECT_EQ(ca.traffic[0].payload_bytes, cb.traffic[0].payload_bytes);
    EXPECT_GT(cb.traffic[0].calls, ca.traffic[0].calls);
    EXPECT_EQ(ca.model_flops, cb.model_flops);
  }
}

}  // namespace
}  // namespace shardbench::test
