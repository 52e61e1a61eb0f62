#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "harness/program/graph/routing_load.hpp"
#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

MoeConfig experts(std::int64_t count, std::int64_t top_k) {
  MoeConfig moe;
  moe.experts = count;
  moe.top_k = top_k;
  return moe;
}

/// Rows of each expert for tokens [first, first + count), counted one by one.
std::vector<std::int64_t> drawn(MoeConfig const& moe, RoutingLoad const& load, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(moe.experts), 0);
  for (std::int64_t n = first; n < first + count; ++n)
    for (std::int64_t i = 0; i < moe.top_k; ++i) {
      std::int64_t const wanted = n * load.stride % load.period + i * load.period;
      std::size_t e = 0;
      while (load.shares[e + 1] <= wanted) ++e;
      ++rows[e];
    }
  return rows;
}

TEST(RoutingLoad, BalanceGivesEveryExpertTheSame) {
  for (auto const& [count, top_k] : {std::pair{8, 2}, {60, 4}, {128, 8}, {256, 8}, {7, 3}}) {
    MoeConfig const moe = experts(count, top_k);
    RoutingLoad const load = routing_load(moe, 0);
    for (std::int64_t const rows : drawn(moe, load, 5, 3 * count)) EXPECT_EQ(rows, 3 * top_k);
    for (std::int64_t const rows : drawn(moe, load, 11, count / 2 + 3))
      EXPECT_LE(rows, load.most_rows(count / 2 + 3, 0, 1));
  }
}

TEST(RoutingLoad, SkewIsTheBusiestOverTheMean) {
  for (double const skew : {1.5, 3.01, 7.5})
    for (auto const& [count, top_k] : {std::pair{64, 1}, {60, 8}, {128, 8}}) {
      MoeConfig const moe = experts(count, top_k);
      RoutingLoad const load = routing_load(moe, skew);
      auto const rows = drawn(moe, load, 3, load.period);
      double const mean = static_cast<double>(load.period * top_k) / count;
      EXPECT_NEAR(static_cast<double>(*std::ranges::max_element(rows)) / mean, skew, 0.02 * skew);
      EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), load.period * top_k);
      for (std::size_t e = 0; e < rows.size(); ++e)
        EXPECT_EQ(rows[e], std::llround(load.rows(static_cast<double>(load.period), static_cast<std::int64_t>(e), 1)));
    }
}

double flops_of(StepProgram const& p, OpKind kind) {
  double sum = 0;
  for_each_op(p,
              [&](Op const& op, Run const& run) { sum += op.kind == kind ? op_cost(p, op, run.adds(op)).flops : 0; });
  return sum;
}

double busiest_exchange(StepProgram const& p) {
  double most = 0;
  for_each_op(p, [&](Op const& op, Run const&) {
    if (auto const* s = std::get_if<CollectiveShape>(&op.shape)) most = std::max(most, s->busiest_count);
  });
  return most;
}

/// 4096 tokens a rank, 64 ranks with one of 64 experts each, top 1.
Experiment one_expert_a_rank() {
  Experiment e;
  e.model = small_mixtral(1);
  e.model.moe->experts = 64, e.model.moe->top_k = 1;
  e.cut = expert_cut(64, 1, 1, 64);
  e.seq = 4096, e.global_batch = 64;
  return e;
}

TEST(Cases, E02_CopiesOfExpertsAreThoseOfTheirOwnMesh) {
  struct Row {
    Cut cut;
    std::size_t dp, edp;
  };
  for (Row const& row : {Row{expert_cut(1, 4, 2, 2), 1, 2}, Row{expert_cut(4, 2, 2, 8), 4, 1}}) {
    StepProgram const p = lower(small_experiment(small_mixtral(2), row.cut), 0);
    auto const size = [&](char const* name) {
      return std::ranges::find(p.groups, std::string(name), &Group::name)->members.size();
    };
    EXPECT_EQ(size("dp"), row.dp);
    EXPECT_EQ(size("edp"), row.edp);
  }
}

TEST(Cases, E03_TimesOfTheBusiestRankScaleWithTheSkew) {
  Experiment e = one_expert_a_rank();
  resolve(e);
  StepProgram const balanced = lower(e, 0);
  e.router_skew = 3.01;
  StepProgram const skewed = lower(e, 0);
  EXPECT_NEAR(flops_of(skewed, OpKind::grouped_gemm) / flops_of(balanced, OpKind::grouped_gemm), 3.01, 0.02);
  EXPECT_NEAR(busiest_exchange(skewed) / busiest_exchange(balanced), 3.01, 0.02);
  // What a rank sends is the same however it is spread; backwards it returns what it was sent.
  double const before = payload_of(balanced, Axis::ep, OpKind::all_to_all, "moe.dispatch");
  EXPECT_NEAR(payload_of(skewed, Axis::ep, OpKind::all_to_all, "moe.dispatch") / before, (1 + 3.01) / 2, 0.02);
}

TEST(Cases, E03_CapacityBoundsTheBuffers) {
  Experiment e = one_expert_a_rank();
  e.routing = RoutingKind::learned;
  for (double const factor : {1.0, 2.0, 16384.0}) {
    e.capacity = factor;
    resolve(e);
    StepProgram const p = lower(e, 0);
    auto const it = std::ranges::find_if(p.tensors, [](Tensor const& t) { return t.name.ends_with("moe.up"); });
    EXPECT_EQ(it->rows, 64 * std::min<std::int64_t>(4096, static_cast<std::int64_t>(factor) * 64))
        << "a token comes once";
    EXPECT_EQ(it->expected_rows, 4096);
  }
}

TEST(Cases, M08_ExpertActivationsFollowTopKAndTheExpertWidth) {
  auto const elements = [](ModelConfig const& model) {
    StepProgram const p = lower(small_experiment(model, cut(1, 1, 1)), 0);
    auto const it = std::ranges::find_if(p.tensors, [](Tensor const& t) { return t.name.ends_with("moe.up"); });
    return it->expected_rows * static_cast<double>(it->cols) / 16;  // of a microbatch of 16 tokens
  };
  ModelConfig model = load_model("qwen3-30b-a3b");
  model.layers = 1;
  EXPECT_EQ(elements(model), 12'288) << "top 8 * 2 * 768 a token, by luck what a dense reading of 6144 gives";
  model.ffn_hidden *= 3;
  EXPECT_EQ(elements(model), 12'288);
  model.moe->top_k = 4;
  EXPECT_EQ(elements(model), 6'144);
  model.moe->ffn_hidden = 1024;
  EXPECT_EQ(elements(model), 8'192);
}

TEST(Moe, RanksHoldTheExpertsOnce) {
  for (Cut const& p : {expert_cut(4, 1, 1, 4), expert_cut(2, 2, 1, 2, 2), expert_cut(1, 2, 2, 2)})
    for (ModelConfig const& m : small_moe_models()) {
      Experiment const e = small_experiment(m, p);
      std::set<std::tuple<std::string, std::int64_t, std::int64_t>> seen;
      std::int64_t sum = 0;
      for (std::int64_t rank = 0; rank < e.ranks; ++rank)
        for (Parameter const& q : lower(e, rank).parameters)
          for (ParameterSection const& s : q.sections)
            if (seen.emplace(s.key, s.row_begin, q.col_begin).second)
              sum += std::max<std::int64_t>(0, std::min(s.rows, s.global_rows - s.row_begin)) * q.cols;
      std::int64_t moe_layers = 0;
      for (std::int64_t l = 0; l < m.layers; ++l) moe_layers += m.is_moe_layer(l);
      // The bias of the choice follows the load, not a gradient: it is no weight of the step.
      std::int64_t const biases = m.moe->router_bias ? moe_layers * m.moe->experts : 0;
      EXPECT_EQ(sum, count_parameters(m).total - biases) << m.name << ' ' << command_flags(e);
    }
}

TEST(Moe, RealSizesAreCountedInNoTime) {
  for (char const* name : {"mixtral-8x7b", "qwen1.5-moe-a2.7b"}) {
    Experiment e;
    e.model_name = name;
    e.seq = 4096;
    e.precision = Dtype::bf16;
    e.cut = expert_cut(4, 2, 2, 4, 2);
    e.global_batch = 8;
    resolve(e);
    StepProgram const p = lower(e, 0);
    EXPECT_GT(counted(p).model_flops, 1e12) << name;
    EXPECT_LT(plan_memory(p, Replay(p)).peak_bytes(), std::int64_t{1} << 39) << name;
  }
}

}  // namespace
}  // namespace shardbench::test
