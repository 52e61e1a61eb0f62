// Layers that predict tokens further ahead, at the end of the model: with the embedding and the head that they share
// the loss, gradients and weights of the unsharded step.
#include <algorithm>

#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::int64_t ranks() { return world().size(); }

/// DeepSeek-V3 as it is: latent attention, experts after a dense layer, one prediction layer.
ModelConfig small_deepseek(std::int64_t layers) {
  ModelConfig m = small_latent(layers);
  m.name = "small-deepseek";
  m.moe = small_deepseek_moe().moe;
  m.mtp_layers = 1;
  return m;
}

ModelConfig dense(std::int64_t layers, bool tied = false) {
  ModelConfig m = small_latent_lite(layers);
  m.name = tied ? "small-tied-predictor" : "small-predictor";
  m.tied_embeddings = tied;
  m.mtp_layers = 2;
  return m;
}

Experiment predicting(ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.mtp = model.mtp_layers;
  resolve(e);
  return e;
}

TEST(MultiTokenPrediction, EveryProduct) {
  for (Cut p : all_products(ranks())) {
    ModelConfig const model = dense(std::max<std::int64_t>(2, p.pp), p.dp == 2);
    expect_parity(predicting(model, p));
    p.sequence_parallel = p.tp > 1;
    if (p.sequence_parallel && ranks() < 8) expect_parity(predicting(model, p));
  }
}

TEST(MultiTokenPrediction, SchedulesAndShards) {
  for (ScheduleKind const schedule :
       {ScheduleKind::interleaved, ScheduleKind::zb_h1, ScheduleKind::zb_v, ScheduleKind::dualpipe})
    for (int const stage : {0, 1, 3}) {
      Cut p = cut(ranks() / 2, 1, 2, schedule);
      if (schedule == ScheduleKind::interleaved) p.vpp = 2;
      p.zero_stage = stage;
      if ((stage > 0) != (ranks() == 4)) continue;
      Experiment e = small_experiment(dense(4, schedule == ScheduleKind::zb_v), cut(1, 1, 1));
      e.cut = p, e.ranks = ranks();
      e.mtp = e.model.mtp_layers;
      e.global_batch = 4 * p.dp;
      resolve(e);
      expect_parity(e, 1);
    }
  Cut p = cut(ranks(), 1, 1);
  p.zero_stage = 3;
  p.recompute = Recompute::full;
  expect_parity(predicting(dense(2), p));
  p = {};
  p.cp = ranks();
  ModelConfig llama = small_llama(2);
  llama.mtp_layers = 1;
  expect_parity(predicting(llama, p));
}

TEST(MultiTokenPrediction, ChunkedOverlapDropoutClippingAndBfloat16) {
  Cut p = cut(ranks() / 2, 2, 1);
  p.tp_overlap = TpOverlap::chunked;
  Experiment e = predicting(dense(2), p);
  e.dropout = 0.1;
  e.clip_grad = 0.1;
  expect_parity(e);
  e.precision = Dtype::bf16;
  expect_parity(e, 1);
}

TEST(MultiTokenPrediction, WithExperts) {
  std::int64_t const n = ranks();
  std::vector<Cut> cuts{expert_cut(n, 1, 1, n), expert_cut(1, n, 1, n)};
  if (n > 2) cuts.push_back(expert_cut(n / 2, 1, 2, 2)), cuts.push_back(expert_cut(n / 2, 2, 1, 2, 2));
  for (Cut const& p : cuts) {
    Experiment e = predicting(small_deepseek(3), p);
    e.routing = RoutingKind::learned;
    expect_equal_steps(e, 1);
  }
}

}  // namespace
}  // namespace shardbench::test
