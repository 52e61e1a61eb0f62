#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tests/harness/program/closed_forms.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

/// A GPT with ffn = 4h and no biases, as the closed form has it.
ModelConfig formula_gpt() {
  ModelConfig m = small_gpt(6);
  m.ffn_hidden = 4 * m.hidden;
  return m;
}

/// Sum over one rank of each stage and tensor position; data-parallel copies do the same work on other samples.
double all_flops(Experiment const& e, double StepCount::*what) {
  double sum = 0;
  for (std::int64_t rank = 0; rank < e.ranks; ++rank) sum += counted(lower(e, rank)).*what;
  return sum;
}

TEST(Flops, AGptStepIsTheClosedForm) {
  Experiment const e = small_experiment(formula_gpt(), cut(1, 1, 1));
  double const expected = gpt_step_flops(8, 16, 6, 64, 300);
  EXPECT_NEAR(all_flops(e, &StepCount::model_flops_full), expected, 1e-9 * expected);
}

TEST(Flops, ACutDoesTheSameWork) {
  for (Cut p : {cut(2, 1, 1), cut(1, 2, 1), cut(1, 4, 1), cut(1, 1, 2), cut(2, 2, 2), cut(1, 1, 2, ScheduleKind::zb_h1),
                cut(1, 1, 2, ScheduleKind::dualpipe)})
    for (bool const sp : {false, true}) {
      if (sp && p.tp == 1) continue;
      p.sequence_parallel = sp;
      ModelConfig m = formula_gpt();
      m.tied_embeddings = p.schedule != ScheduleKind::dualpipe;
      Experiment const e = small_experiment(m, p);
      double const expected = gpt_step_flops(8, 16, 6, 64, 300);
      EXPECT_NEAR(all_flops(e, &StepCount::model_flops_full), expected, 1e-9 * expected) << command_flags(e);
    }
}

TEST(Flops, FullRecomputationRunsTheForwardPassOfTheBlocksAgain) {
  Cut p;
  p.recompute = Recompute::full;
  Experiment const e = small_experiment(formula_gpt(), p);
  StepCount const c = counted(lower(e, 0));
  p.recompute = Recompute::none;
  StepCount const plain = counted(lower(small_experiment(formula_gpt(), p), 0));
  EXPECT_EQ(c.model_flops, plain.model_flops);
  double const logits = 6.0 * 8 * 16 * 64 * 300;  // padding to 384 is no work of the model
  EXPECT_NEAR(c.hardware_flops - plain.hardware_flops, (plain.model_flops - logits) / 3, 1e-6 * plain.model_flops);
}

TEST(Flops, ALlamaBlockIsTheSumOfItsProducts) {
  Experiment e = small_experiment(small_llama(1), cut(1, 1, 1));
  e.scope = Scope::layer;
  StepCount const c = counted(lower(e, 0));
  double const tokens = 8 * 16, h = 64, kv = 16, ffn = 128, s = 16;
  double const products = 6 * tokens * (h * (h + 2 * kv) + h * h + 3 * h * ffn);
  EXPECT_NEAR(c.model_flops_full, products + 12 * h * s * tokens, 1e-6);
  EXPECT_NEAR(c.model_flops, products + 12 * h * (s + 1) / 2 * tokens, 1e-6)
      << "causal: half of the pairs and the diagonal";
}

TEST(Flops, MixtralCountsTheExpertsThatATokenVisits) {
  Experiment e;
  e.model_name = "mixtral-8x7b";
  e.layers = 1;
  e.seq = 128;
  e.cut.dp = 4;
  e.cut.ep = 4;
  e.scope = Scope::layer;
  resolve(e);
  double const tokens = 128, h = 4096, s = 128;
  double const products = 6 * tokens * (h * (h + 2 * 1024) + h * h + h * 8 + 2 * 3 * h * 14336);
  EXPECT_NEAR(counted(lower(e, 0)).model_flops_full, products + 12 * h * s * tokens, 1e-9 * products);
}

/// Parameters of all ranks, each global element once.
std::int64_t distinct_parameters(Experiment const& e) {
  std::set<std::tuple<std::string, std::int64_t, std::int64_t>> seen;
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < e.ranks; ++rank)
    for (Parameter const& p : lower(e, rank).parameters) {
      if (p.copy) continue;
      for (ParameterSection const& s : p.sections)
        if (seen.emplace(s.key, s.row_begin, p.col_begin).second)
          sum += std::max<std::int64_t>(0, std::min(s.rows, s.global_rows - s.row_begin)) * p.cols;
    }
  return sum;
}

TEST(Parameters, RanksHoldTheModelOnce) {
  for (Cut const& p : {cut(1, 1, 1), cut(2, 1, 1), cut(1, 2, 1), cut(1, 8, 1), cut(1, 1, 4), cut(2, 2, 2)})
    for (ModelConfig const& m : {small_gpt(4), small_llama(4)}) {
      Experiment const e = small_experiment(m, p);
      EXPECT_EQ(distinct_parameters(e), count_parameters(m).total) << command_flags(e);
    }
  ModelConfig untied = small_gpt(4);
  untied.tied_embeddings = false;
  EXPECT_EQ(distinct_parameters(small_experiment(untied, cut(1, 1, 2, ScheduleKind::zb_v))),
            count_parameters(untied).total);
  EXPECT_EQ(distinct_parameters(small_experiment(untied, cut(1, 1, 2, ScheduleKind::dualpipe))),
            count_parameters(untied).total);
}

TEST(Lower, EqualInputsGiveEqualPrograms) {
  Experiment const e = small_experiment(small_gpt(4), cut(2, 2, 2));
  StepProgram const a = lower(e, 5), b = lower(e, 5);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
  EXPECT_EQ(a.actions, b.actions);
}

TEST(Lower, RanksOfAJobAgreeOnTheirGroups) {
  Experiment const e = small_experiment(small_llama(4), cut(2, 2, 2));
  for (std::int64_t rank = 0; rank < e.ranks; ++rank) {
    auto const mine = communication_groups(e, rank);
    for (std::size_t g = 0; g < mine.size(); ++g) {
      if (mine[g].members.empty()) continue;
      EXPECT_TRUE(std::ranges::find(mine[g].members, rank) != mine[g].members.end());
      for (auto const other : mine[g].members) EXPECT_EQ(communication_groups(e, other)[g].members, mine[g].members);
    }
  }
}

TEST(Lower, ALargeModelIsLoweredInNoTime) {
  Experiment e;
  e.model_name = "llama3.1-405b";
  e.seq = 8192;
  e.cut.tp = 8, e.cut.pp = 16, e.cut.dp = 128;
  e.global_batch = 2048;
  e.precision = Dtype::bf16;
  resolve(e);
  StepProgram const p = lower(e, 0);
  // No clock: what makes it fast is that segments are stored once, however many microbatches replay them.
  std::size_t ops = 0;
  for (Segment const& s : p.segments) ops += s.ops.size();
  EXPECT_LT(ops, 1000u);
  StepCount const c = counted(p);
  EXPECT_GT(c.model_flops, 1e15);
  EXPECT_LT(plan_memory(p, Replay(p)).peak_bytes(), std::int64_t{1} << 38);
}

}  // namespace
}  // namespace shardbench::test
