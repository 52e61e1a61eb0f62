// Pieces of unequal and of no layers: the loss, gradients and weights of the unsharded step.
#include <algorithm>

#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::int64_t ranks() { return world().size(); }

Cut pipeline(ScheduleKind schedule = ScheduleKind::one_f_one_b, std::int64_t vpp = 1) {
  Cut p = cut(ranks() / 2, 1, 2, schedule);
  p.vpp = vpp;
  return p;
}

TEST(StageLayout, EmbeddingAndHeadAloneInTheirPieces) {
  for (ModelConfig const& model : {small_gpt(2), small_llama(2)})
    for (Cut p : {pipeline(ScheduleKind::interleaved, 2), pipeline(ScheduleKind::zb_v)}) {
      p.embedding_slot = p.head_slot = true;
      for (int const zero : {0, 3}) {
        p.zero_stage = ranks() > 2 ? zero : 0;
        expect_parity(small_experiment(model, p), 1);
      }
    }
}

TEST(StageLayout, FewerLayersAtTheEnds) {
  Cut p = pipeline();
  p.first_stage_layers = 3;
  expect_parity(small_experiment(small_llama(4), p), 1);
  p = pipeline(ScheduleKind::interleaved, 2);
  p.last_stage_layers = 2;
  expect_parity(small_experiment(small_gpt(6), p), 1);
  // Two stages of dualpipe need four microbatches: at most two copies of the batch of eight.
  std::int64_t const dp = std::min<std::int64_t>(ranks() / 2, 2);
  p = cut(dp, ranks() / 2 / dp, 2, ScheduleKind::dualpipe);
  p.first_stage_layers = 1;
  expect_parity(small_experiment(small_gpt(4), p), 1);
}

TEST(StageLayout, APieceWithNothingHandsOnWhatItIsGiven) {
  for (std::string const layout : {"Et||t|tL", "E|t*2||tL", "Ett|m|t|L"}) {
    Experiment e = small_experiment(small_llama(3), cut(ranks() / 2, 1, 2));
    e.pipeline_layout = layout;
    e.cut.recompute = layout.front() == 'E' && layout[1] == 't' ? Recompute::full : Recompute::none;
    resolve(e);
    EXPECT_EQ(e.cut.vpp, 2) << layout;
    expect_parity(e, 1);
    e.scope = Scope::layer;
    expect_equal_steps(e, 1);
  }
}

TEST(StageLayout, OneStageHasAllLayersWhateverItsSchedule) {
  if (ranks() != 2) return;
  for (ScheduleKind const schedule : {ScheduleKind::zb_v, ScheduleKind::zb_h1, ScheduleKind::gpipe})
    expect_parity(small_experiment(small_gpt(4), cut(2, 1, 1, schedule)), 1);
}

TEST(Interleaved, AnyCountOfMicrobatches) {
  if (ranks() != 4) return;
  Cut p = cut(1, 1, 4, ScheduleKind::interleaved);
  p.vpp = 2;
  for (std::int64_t const microbatches : {3, 5, 10, 11}) {
    Experiment e = small_experiment(small_gpt(8), p);
    e.global_batch = microbatches;
    expect_parity(e, 1);
  }
}

}  // namespace
}  // namespace shardbench::test
