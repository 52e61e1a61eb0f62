// The table of operations has no holes: each row is part of some program, and none costs nothing there.
#include <gtest/gtest.h>

#include <set>

#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

/// Small programs that have every operation between them.
std::vector<StepProgram> all_operations() {
  Experiment clipped = small_experiment(small_gpt(), cut(1, 1, 1));
  clipped.dropout = 0.1, clipped.clip_grad = 1;
  Cut ring = cut(1, 1, 1);
  ring.cp = 2;
  Experiment decode = small_experiment(small_llama(), cut(1, 2, 1));
  decode.phase = PhaseKind::decode, decode.global_batch = decode.micro_batch = 8;
  std::vector<StepProgram> programs;
  for (Experiment const& e :
       {clipped, decode, small_experiment(small_llama(), ring), small_experiment(small_latent(), cut(1, 1, 1)),
        small_experiment(small_mixtral(), expert_cut(2, 1, 1, 2)), small_experiment(small_vit(true), cut(1, 1, 1)),
        small_experiment(small_yolo(true), cut(1, 1, 1))})
    programs.push_back(lower(e, 0));
  return programs;
}

TEST(Operations, EachIsInSomeProgramAndMovesBytesThere) {
  std::set<OpKind> seen;
  for (StepProgram const& p : all_operations())
    for_each_op(p, [&](Op const& op, shardbench::Run const& run) {
      if (is_communication(op.kind)) return;
      seen.insert(op.kind);
      EXPECT_GT(op_cost(p, op, run.adds(op)).bytes, 0) << to_string(op.kind);
    });
  for (OpKind const kind : enum_values<OpKind>())
    EXPECT_NE(seen.contains(kind), is_communication(kind)) << to_string(kind) << " is in no program";
}

}  // namespace
}  // namespace shardbench::test
