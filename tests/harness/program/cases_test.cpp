// Reports of people who cut models, as arithmetic of lowered programs: memory, traffic, copies.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/harness/program/closed_forms.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

Experiment bf16(ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.precision = Dtype::bf16;
  return e;
}

/// The architecture of Llama-2 7B: 6,738,415,616 parameters.
ModelConfig llama2_7b() {
  ModelConfig m = small_llama(32, 32, 32);
  m.name = "llama-2-7b";
  m.hidden = 4096, m.ffn_hidden = 11008, m.head_dim = 128, m.vocab = 32000;
  return m;
}

double state_bytes(Experiment const& e) {
  StepProgram const p = lower(e, 0);
  MemoryPlan const plan = plan_memory(p, Replay(p));
  return static_cast<double>(plan.parameter_bytes + plan.gradient_bytes + plan.optimizer_bytes);
}

TEST(Cases, M03_DistributedOptimizerOfLlama2) {
  constexpr double gib = 1 << 30;
  Cut p = cut(8, 1, 1);
  Experiment e = bf16(llama2_7b(), p);
  EXPECT_EQ(counted(lower(e, 0)).parameters, 6'738'415'616);
  EXPECT_NEAR(state_bytes(e) / gib, 112.96, 0.05);  // 18 bytes a parameter: does not fit 80 GiB
  e.cut.zero_stage = 1;
  EXPECT_NEAR(state_bytes(e) / gib, 47.07, 0.05);  // 6 + 12/8
}

/// Bytes of a rank's tensors with a name's ending, and of a whole unit's that the shard is a part of.
double bytes_of_tensors(StepProgram const& p, std::string const& ending) {
  double bytes = 0;
  for (Tensor const& t : p.tensors)
    if (t.name.starts_with("bucket") && t.name.ends_with(ending)) bytes += static_cast<double>(t.bytes());
  return bytes;
}

TEST(Cases, M02_TermsOfDeepSpeedsZero3Estimate) {
  // DeepSpeed keeps 2 bytes a weight and 16 of fp32 states (gradient, master, two moments) in shards, and one layer's
  // weights and gradients of 2 bytes each whole. Ours: the same terms, the whole gradients in fp32 unless asked for
  // bf16.
  Cut p = cut(4, 1, 1);
  p.zero_stage = 3;
  Experiment e = bf16(small_llama(3), p);
  StepProgram const sharded = lower(e, 0);
  double shard_elements = 0, whole_elements = 0;
  for (Bucket const& b : sharded.buckets)
    shard_elements += static_cast<double>(b.shard_elements), whole_elements += static_cast<double>(b.elements);
  double const parameter = bytes_of_tensors(sharded, ".weight_shard") / shard_elements;
  double const states = state_bytes(e) / shard_elements;
  e.gradient_dtype = Dtype::bf16;
  StepProgram const narrow = lower(e, 0);
  double const whole = (bytes_of_tensors(narrow, ".weights") + bytes_of_tensors(narrow, ".gradients")) / whole_elements;
  EXPECT_EQ(parameter, 2);
  EXPECT_EQ(states, 18);
  EXPECT_EQ(whole, 4);
  constexpr double params = 6805e6, largest = 131e6, gpus = 4, gib = 1 << 30;
  EXPECT_NEAR((states * params / gpus + whole * largest) / gib, 29.01, 0.005);
  EXPECT_NEAR((parameter * params / gpus + whole * largest) / gib, 3.66, 0.005) << "optimizer offloaded";
  EXPECT_NEAR(whole * largest / gib, 0.49, 0.005) << "weights too";
}

TEST(Cases, Z03_BytesAParameter) {
  // The case has gradients of 2 bytes: 16, 4 + 12/n, 2 + 14/n, 16/n; with fp32 gradients there are 2 more.
  ModelConfig const model = small_llama(4);
  Cut p = cut(8, 1, 1);
  double const n = static_cast<double>(counted(lower(bf16(model, p), 0)).parameters);
  for (Dtype const gradients : {Dtype::f32, Dtype::bf16})
    for (int const stage : {0, 1, 2, 3}) {
      p.zero_stage = stage;
      Experiment e = bf16(model, p);
      e.gradient_dtype = gradients;
      double const wide = gradients == Dtype::f32 ? 2 : 0;
      double const expected[] = {16 + wide, 4 + wide + 12.0 / 8, 2 + (14 + wide) / 8, (16 + wide) / 8};
      EXPECT_NEAR(state_bytes(e) / n, expected[stage], 0.05 * expected[stage]) << stage;
      if (stage == 0) continue;
      // Saved of what is cut: (n - 1) / n.
      double const cut_bytes = stage == 1 ? 12 : stage == 2 ? 14 + wide : 16 + wide;
      double const saved = (16 + wide - state_bytes(e) / n) / cut_bytes;
      EXPECT_NEAR(saved, 7.0 / 8, 0.02) << stage;
    }
}

TEST(Cases, M05_ActivationsOfTwentyTwoBillionParameters) {
  constexpr double s = 2048, b = 4, h = 6144, a = 64, t = 8, layers = 48, gib = 1 << 30;
  EXPECT_NEAR(layers * gpt_layer_activation_bytes(s, b, h, a, t, false) / gib, 59.25, 0.005);
  double const scores = s * b * h * 5 * a * s / (h * t);
  EXPECT_NEAR(layers * (gpt_layer_activation_bytes(s, b, h, a, t, true) - scores) / gib, 9.5625, 0.00005);
  EXPECT_NEAR(18 * 12 * layers * h * h / t / gib, 45.5625, 0.00005);
}

TEST(Cases, M08_ExpertActivationsFollowTopKAndTheirOwnWidth) {
  auto const peak = [](std::int64_t top_k, std::int64_t expert_ffn, std::int64_t dense_ffn) {
    ModelConfig m = small_llama(2);
    m.ffn_hidden = dense_ffn;
    m.moe.emplace();
    m.moe->experts = 8, m.moe->top_k = top_k, m.moe->ffn_hidden = expert_ffn;
    StepProgram const p = lower(small_experiment(m, cut(1, 1, 1)), 0);
    return plan_memory(p, Replay(p)).activation_peak_bytes;
  };
  EXPECT_GT(peak(4, 128, 256), peak(2, 128, 256));
  EXPECT_GT(peak(2, 256, 256), peak(2, 128, 256));
  EXPECT_EQ(peak(2, 128, 512), peak(2, 128, 256));
}

TEST(Cases, M09_NormsAreWholeOnEveryTensorRank) {
  Experiment e;
  e.model_name = "llama3.1-8b";
  e.cut.tp = 8;
  e.seq = 16;
  resolve(e);
  std::int64_t total = 0;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    StepProgram const p = lower(e, rank);
    std::int64_t norms = 0;
    for (Parameter const& parameter : p.parameters) {
      bool const norm = parameter.name.find("norm") != std::string::npos;
      if (norm) norms += parameter.elements();
      if (norm && rank > 0) continue;  // copies
      for (ParameterSection const& s : parameter.sections)
        total += std::clamp<std::int64_t>(s.global_rows - s.row_begin, 0, s.rows) * parameter.cols;
    }
    EXPECT_EQ(norms, (2 * 32 + 1) * 4096);
  }
  EXPECT_EQ(total, 8'030'261'248);
}

TEST(Cases, M11_KeyValueHeadsAreNeverLessThanOne) {
  Experiment e;
  e.model_name = "llama3.1-8b";
  e.layers = 1;
  e.cut.tp = 32;
  e.seq = 16;
  resolve(e);
  for (std::int64_t const rank : {0, 3, 4, 31}) {
    StepProgram const p = lower(e, rank);
    auto const qkv = std::ranges::find(p.parameters, std::string("layers.0.attention.qkv.weight"), &Parameter::name);
    ASSERT_NE(qkv, p.parameters.end());
    EXPECT_EQ(qkv->sections[1].rows, 128) << "8 KV heads over 32 ranks: one each, four ranks alike";
    EXPECT_EQ(qkv->sections[1].row_begin, rank / 4 * 128);
    EXPECT_EQ(qkv->sections[1].tp_copies, 4);
    EXPECT_EQ(qkv->sections[0].tp_copies, 1);
  }
}

TEST(Cases, S03_DummyRowsTakeMemoryAndNoPartInTheLoss) {
  ModelConfig model = small_llama(1);
  model.vocab = 32001;
  for (std::int64_t const tp : {1, 2}) {
    StepProgram const p = lower(small_experiment(model, cut(1, tp, 1)), tp - 1);
    std::int64_t const padded = tp == 1 ? 32128 : 32256;  // one token more than 32000 makes 127 or 255 dummy rows
    std::int64_t tables = 0, losses = 0;
    for (Parameter const& parameter : p.parameters) {
      if (parameter.global_cols != model.hidden || parameter.sections.front().global_rows != model.vocab) continue;
      EXPECT_EQ(parameter.rows, padded / tp);
      ++tables;
    }
    EXPECT_EQ(tables, 2) << "embedding and head";
    for_each_op(p, [&](Op const& op, shardbench::Run const&) {
      auto const* s = std::get_if<CrossEntropyOpShape>(&op.shape);
      if (!s) return;
      EXPECT_EQ(s->columns, padded / tp);
      EXPECT_EQ(s->first_column, (tp - 1) * padded / tp);
      EXPECT_EQ(s->valid_vocab, 32001);
      ++losses;
    });
    EXPECT_GT(losses, 0);
  }
}

/// Bytes on the wire for each byte of the weights, padded to whole shards.
double dp_wire_share(int zero_stage) {
  Cut c = cut(8, 1, 1);
  c.zero_stage = zero_stage;
  Experiment e = small_experiment(small_llama(3), c);
  e.global_batch = 8 * e.micro_batch;
  StepProgram const p = lower(e, 0);
  double elements = 0;
  for (Bucket const& b : p.buckets) elements += static_cast<double>(b.elements);
  return on(counted(p), Axis::dp).wire_bytes / (4 * elements);
}

double dp_wire(Experiment const& e) { return on(counted(lower(e, 0)), Axis::dp).wire_bytes; }

TEST(Cases, Z01_FullShardingMovesHalfAsMuchAgain) {
  EXPECT_NEAR(ring_wire_bytes(OpKind::all_reduce, 14e9, 8), 24.5e9, 1);
  EXPECT_NEAR(2 * ring_wire_bytes(OpKind::all_gather, 14e9, 8) + ring_wire_bytes(OpKind::reduce_scatter, 14e9, 8),
              36.75e9, 1);
  for (int const stage : {0, 1, 2}) EXPECT_DOUBLE_EQ(dp_wire_share(stage), 2.0 * 7 / 8) << stage;
  EXPECT_DOUBLE_EQ(dp_wire_share(3), 3.0 * 7 / 8);
}

TEST(Cases, Z02_KeptWeightsAreGatheredOnceAStep) {
  Cut p = cut(2, 1, 1);
  p.zero_stage = 3;
  auto const payload = [&](ZeroKeep keep, std::int64_t batch, OpKind kind) {
    p.zero_keep = keep;
    Experiment e = small_experiment(small_llama(3), p);
    e.global_batch = batch;
    return payload_of(lower(e, 0), Axis::dp, kind);
  };
  for (OpKind const kind : {OpKind::all_gather, OpKind::reduce_scatter}) {
    double const once = payload(ZeroKeep::all, 2, kind);
    EXPECT_EQ(payload(ZeroKeep::none, 8, kind), (kind == OpKind::all_gather ? 2 : 1) * 4 * once) << "there and back";
    EXPECT_EQ(payload(ZeroKeep::weights, 8, kind), (kind == OpKind::all_gather ? 1 : 4) * once);
    EXPECT_EQ(payload(ZeroKeep::all, 8, kind), once);
  }
}

TEST(Cases, Z02_EachMicrobatchGathersAgain) {
  Cut p = cut(2, 1, 1);
  p.zero_stage = 3;
  Experiment once = small_experiment(small_llama(3), p), four = once;
  once.global_batch = 2, four.global_batch = 8;
  EXPECT_DOUBLE_EQ(dp_wire(four), 4 * dp_wire(once));
  p.zero_stage = 0;
  Experiment plain_once = small_experiment(small_llama(3), p), plain_four = plain_once;
  plain_once.global_batch = 2, plain_four.global_batch = 8;
  EXPECT_DOUBLE_EQ(dp_wire(plain_four), dp_wire(plain_once));
}

}  // namespace
}  // namespace shardbench::test
