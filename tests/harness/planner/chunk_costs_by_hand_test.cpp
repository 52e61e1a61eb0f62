// What parts of a model cost, from layer costs whose every number is another.
#include <gtest/gtest.h>

#include "harness/planner/chunk_costs.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

LayerCosts different_costs() {
  LayerCosts l;
  PieceCost dense, experts;
  dense.forward_ms = 2, dense.backward_ms = 5, dense.weight_backward_ms = 3, dense.adding_ms = 0.5;
  dense.activation_bytes = 7, dense.parameters = 1100, dense.buckets = 0.25;
  experts.forward_ms = 11, experts.backward_ms = 13, experts.weight_backward_ms = 6, experts.adding_ms = 1.5;
  experts.activation_bytes = 17, experts.parameters = 1900, experts.expert_parameters = 23000;
  experts.buckets = 0.5, experts.expert_buckets = 3;
  l.kinds = {dense, experts};
  l.outside.embedding.forward_ms = 29, l.outside.embedding.parameters = 31000, l.outside.embedding.buckets = 1;
  l.outside.head.forward_ms = 37, l.outside.head.backward_ms = 41, l.outside.head.parameters = 43;
  l.outside.optimizer_ms_per_parameter = 0.125;
  l.outside.parameter_bytes = 2, l.outside.gradient_bytes = 4, l.outside.optimizer_bytes = 12;
  l.message_bytes = 4.7e6;
  return l;
}

struct Costs {
  explicit Costs(Candidate const& c, std::string const& model_name = "llama3.1-8b") : cut(c) {
    request.base = base_of(model_name, 8, 1024, 96);
  }
  ChunkCosts of() { return {request, model, network, cut, layer}; }
  CostModel model = h100();
  NetworkMemo network{model};
  PlanRequest request;
  Candidate cut;
  LayerCosts layer = different_costs();
};

TEST(ChunkCostsByHand, APartIsItsLayersAndWhatSurroundsThem) {
  PieceCost const sum = sum_of(different_costs(), {.layers = {3, 2}, .embedding = true, .head = false});
  EXPECT_DOUBLE_EQ(sum.forward_ms, 3 * 2 + 2 * 11 + 29);
  EXPECT_DOUBLE_EQ(sum.backward_ms, 3 * 5 + 2 * 13);
  EXPECT_DOUBLE_EQ(sum.weight_backward_ms, 3 * 3 + 2 * 6);
  EXPECT_DOUBLE_EQ(sum.adding_ms, 3 * 0.5 + 2 * 1.5);
  EXPECT_DOUBLE_EQ(sum.activation_bytes, 3 * 7 + 2 * 17);
  EXPECT_DOUBLE_EQ(sum.parameters, 3 * 1100 + 2 * 1900 + 31000);
  EXPECT_DOUBLE_EQ(sum.expert_parameters, 2 * 23000);
  EXPECT_DOUBLE_EQ(sum.buckets, 3 * 0.25 + 2 * 0.5 + 1);
  EXPECT_DOUBLE_EQ(sum.expert_buckets, 6);
  PieceCost const end = sum_of(different_costs(), {.layers = {1, 0}, .embedding = false, .head = true});
  EXPECT_DOUBLE_EQ(end.forward_ms, 2 + 37);
  EXPECT_DOUBLE_EQ(end.backward_ms, 5 + 41);
  EXPECT_DOUBLE_EQ(end.parameters, 1100 + 43);
}

TEST(ChunkCostsByHand, ATiedHeadHoldsTheTableAgain) {
  Costs tied({.pp = 2, .dp = 2}, "gpt2"), alone({.pp = 1, .dp = 4}, "gpt2"), untied({.pp = 2, .dp = 2});
  ModelPart const end{.layers = {1}, .head = true};
  EXPECT_DOUBLE_EQ(tied.of().of(end).parameters, 1100 + 43 + 31000);
  EXPECT_DOUBLE_EQ(alone.of().of(end).parameters, 1100 + 43);
  EXPECT_DOUBLE_EQ(untied.of().of(end).parameters, 1100 + 43);
  EXPECT_DOUBLE_EQ(tied.of().of({.layers = {1}, .embedding = true}).parameters, 1100 + 31000);
}

TEST(ChunkCostsByHand, MicrobatchesAreTheBatchOverCopiesAndMicroBatch) {
  EXPECT_DOUBLE_EQ(Costs({.dp = 4, .micro_batch = 3}).of().microbatches(), 96 / (4 * 3));
}

// 1000 parameters of the dense part over 2 * 6 copies, 5000 of the experts over 6 * 2 * 4 / (8 * 2) = 3.
TEST(ChunkCostsByHand, StatesAreCutByZeroStage) {
  PieceCost held;
  held.parameters = 1000, held.expert_parameters = 5000;
  Costs c({.tp = 4, .cp = 2, .ep = 8, .etp = 2, .dp = 6});
  double const dense = 12, experts = 3;
  EXPECT_DOUBLE_EQ(c.of().state_bytes(held), 6000 * (2 + 4 + 12));
  c.cut.zero_stage = 1;
  EXPECT_DOUBLE_EQ(c.of().state_bytes(held), 1000 * (6 + 12 / dense) + 5000 * (6 + 12 / experts));
  c.cut.zero_stage = 2;
  EXPECT_DOUBLE_EQ(c.of().state_bytes(held), 1000 * (2 + 16 / dense) + 5000 * (2 + 16 / experts));
  c.cut.zero_stage = 3;
  EXPECT_DOUBLE_EQ(c.of().state_bytes(held), 1000 * 18 / dense + 5000 * 18 / experts);
  EXPECT_DOUBLE_EQ(c.of().update_ms(held), 0.125 * (1000 / dense + 5000 / experts));
  c.cut.zero_stage = 0;
  EXPECT_DOUBLE_EQ(c.of().update_ms(held), 0.125 * 6000);
}

std::vector<std::int64_t> strided(std::int64_t stride, std::int64_t ranks) {
  std::vector<std::int64_t> members;
  for (std::int64_t i = 0; i < ranks; ++i) members.push_back(i * stride);
  return members;
}

// Gradients of the dense part over 2 * 6 ranks that stand tp apart, in 7 buckets; of the experts over 3 ranks that
// stand ep * etp apart, in 3.
TEST(ChunkCostsByHand, ReductionsAndGathersGoOverTheCopies) {
  PieceCost held;
  held.parameters = 1e8, held.expert_parameters = 5e8, held.buckets = 7.4, held.expert_buckets = 2.6;
  Costs c({.tp = 4, .cp = 2, .ep = 8, .etp = 2, .dp = 6});
  auto const ms = [&](OpKind kind, double bytes_each) {
    return 1e-3 * (7 * c.model.network_time(kind, 1e8 * bytes_each / 7, strided(4, 12)).total_us +
                   3 * c.model.network_time(kind, 5e8 * bytes_each / 3, strided(16, 3)).total_us);
  };
  double const sent = sent_gradient_bytes(c.request.base, c.model.stack());
  EXPECT_DOUBLE_EQ(c.of().reductions(held).ms, ms(OpKind::all_reduce, sent));
  EXPECT_DOUBLE_EQ(c.of().reductions(held).parts, 10);
  EXPECT_EQ(c.of().gathers(held).ms, 0);
  c.cut.zero_stage = 1;
  EXPECT_DOUBLE_EQ(c.of().reductions(held).ms, ms(OpKind::reduce_scatter, sent));
  EXPECT_DOUBLE_EQ(c.of().gathers(held).ms, ms(OpKind::all_gather, 2));  // weights in bf16
  EXPECT_EQ(Costs({}).of().reductions(held).parts, 0);
  EXPECT_EQ(Costs({.tp = 4}).of().reductions(held).parts, 3)
      << "whole experts are copied over the ranks that cut the rest";
}

TEST(ChunkCostsByHand, GradientsAreSentAsWideAsTheStackOrTheRunSays) {
  Experiment e;
  SoftwareStack stack;
  stack.gradient_bytes = 2;
  e.gradient_dtype = Dtype::f32;
  EXPECT_EQ(sent_gradient_bytes(e, stack), 2);
  stack.gradient_bytes = 4;
  EXPECT_EQ(sent_gradient_bytes(e, stack), 4);
  e.gradient_dtype = Dtype::bf16;
  EXPECT_EQ(sent_gradient_bytes(e, stack), 2);
}

TEST(ChunkCostsByHand, MessagesGoToTheLikeRankOfTheStage) {
  Costs c({.tp = 4, .cp = 2, .pp = 3, .dp = 5});
  EXPECT_DOUBLE_EQ(c.of().message_ms(1, 2), c.model.message_ms(40, 80, 4.7e6, {80, 81, 82, 83}));
}

TEST(ChunkCostsByHand, WeightsAreGatheredFirstWhereTheStackDoesAndShardsAreKept) {
  for (int stage = 0; stage <= 3; ++stage) {
    Costs c({.dp = 4, .zero_stage = static_cast<std::int8_t>(stage)});
    EXPECT_FALSE(c.of().gathers_first());
    SoftwareStack stack = c.model.stack();
    stack.gather_with_forward = true;
    c.model = CostModel(c.model.system(), stack);
    EXPECT_EQ(c.of().gathers_first(), stage == 1 || stage == 2) << stage;
  }
}

// 8 layers over 2 stages of 2 chunks, round robin; embedding in front, head at the end.
TEST(ChunkCostsByHand, PartsOfAnInterleavedPipeline) {
  Experiment e;
  e.model.layers = 8;
  auto const parts =
      model_parts(e, PipelineSchedule{.kind = ScheduleKind::interleaved, .stages = 2, .chunks = 2, .order = {}});
  ASSERT_EQ(parts.size(), 4u);
  for (ModelPart const& part : parts) EXPECT_EQ(part.layers, std::vector<std::int64_t>{2});
  EXPECT_TRUE(parts[0].embedding && !parts[0].head);
  EXPECT_TRUE(!parts[1].embedding && !parts[1].head);
  EXPECT_TRUE(!parts[2].embedding && !parts[2].head);
  EXPECT_TRUE(!parts[3].embedding && parts[3].head);  // stage 1, chunk 1
}

TEST(ChunkCostsByHand, LayersOfTwoKindsAreCountedApart) {
  Experiment e;
  ModelConfig& m = e.model;
  m.layers = 7;
  EXPECT_EQ(layers_by_kind(m, 1, 3), std::vector<std::int64_t>{3});
  m.moe.emplace().first_dense_layers = 3;
  EXPECT_EQ(layers_by_kind(m, 0, 7), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(layers_by_kind(m, 2, 3), (std::vector<std::int64_t>{1, 2}));
  auto const parts = model_parts(e, PipelineSchedule{.kind = ScheduleKind::one_f_one_b, .stages = 2, .order = {}});
  EXPECT_EQ(parts[0].last_kind + parts[1].last_kind, parts[0].layers[1] > 0 ? 2u : 1u);
  EXPECT_EQ(parts[1].last_kind, 1u);
}

}  // namespace
}  // namespace shardbench::test
