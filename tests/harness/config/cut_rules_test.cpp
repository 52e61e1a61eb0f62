#include <gtest/gtest.h>

#include "harness/config/cut.hpp"
#include "harness/config/stage_layout.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;

using Degrees = std::vector<std::int64_t>;

std::string reasons(ModelConfig const& model, Cut const& cut) {
  std::string all;
  for (std::string const& reason : illegal_reasons(model, cut)) all += reason + "; ";
  return all;
}

std::string tp_reasons(std::string const& model, std::int64_t tp) {
  Cut cut;
  cut.tp = tp;
  return reasons(load_model(model), cut);
}

ModelConfig gpt(std::int64_t heads, std::int64_t head_dim, std::int64_t layers = 4) {
  ModelConfig model;
  model.name = "gpt-test";
  model.heads = model.kv_heads = heads;
  model.head_dim = head_dim;
  model.hidden = heads * head_dim;
  model.ffn_hidden = 4 * model.hidden;
  model.layers = layers;
  model.vocab = 100;
  model.max_positions = 64;
  return model;
}

MoeConfig experts_of(std::int64_t experts, std::int64_t ffn) {
  MoeConfig moe;
  moe.experts = experts;
  moe.top_k = 2;
  moe.ffn_hidden = ffn;
  return moe;
}

TEST(Cases, S01_FiftyTwoHeads) {
  ModelConfig const model = gpt(52, 128);
  EXPECT_EQ(legal_tp(model, 52), (Degrees{1, 2, 4, 13, 26, 52}));
  for (std::int64_t const tp : {3, 8}) {
    Cut cut;
    cut.tp = tp;
    std::string const message = reasons(model, cut);
    EXPECT_TRUE(contains(message, "tp: " + std::to_string(tp) + " does not divide 52 query heads")) << message;
    EXPECT_TRUE(contains(message, "1, 2, 4, 13, 26, 52")) << message;
  }
}

TEST(Cases, S02_QueryHeadsKvHeadsAndFfn) {
  EXPECT_EQ(legal_tp(load_model("qwen2-7b"), 28), (Degrees{1, 2, 4}));
  EXPECT_EQ(tp_reasons("qwen2-7b", 2) + tp_reasons("qwen2-7b", 4), "");
  EXPECT_TRUE(contains(tp_reasons("qwen2-7b", 8), "does not divide 28 query heads"));
  EXPECT_TRUE(contains(tp_reasons("qwen2-7b", 7), "and 4 kv heads: neither divides the other"));
  EXPECT_TRUE(contains(tp_reasons("qwen2-7b", 14), "4 kv heads"));
  std::string const all = tp_reasons("qwen2-7b", 28);
  EXPECT_TRUE(contains(all, "does not divide 18944 ffn")) << all;
  EXPECT_FALSE(contains(all, "kv heads")) << all;
  EXPECT_FALSE(contains(all, "query heads")) << all;
}

TEST(CutRules, SmolLmNamesTheLegalList) {
  EXPECT_EQ(legal_tp(load_model("smollm-360m"), 100), (Degrees{1, 5}));
  for (std::int64_t const tp : {2, 3, 15}) {
    std::string const message = tp_reasons("smollm-360m", tp);
    EXPECT_TRUE(contains(message, "tp: " + std::to_string(tp))) << message;
    EXPECT_TRUE(contains(message, "legal for smollm-360m: 1, 5;")) << message;
  }
  EXPECT_TRUE(contains(tp_reasons("smollm-360m", 2), "15 query heads"));
  EXPECT_TRUE(contains(tp_reasons("smollm-360m", 3), "2560 ffn"));
  EXPECT_TRUE(contains(tp_reasons("smollm-360m", 15), "2560 ffn"));
  EXPECT_EQ(tp_reasons("smollm-360m", 5), "");
}

TEST(Cases, S03_VocabularyPadding) {
  Degrees padded, local;
  for (std::int64_t const tp : {1, 2, 4, 8}) {
    padded.push_back(padded_vocab(50257, tp));
    local.push_back(padded.back() / tp);
  }
  EXPECT_EQ(padded, (Degrees{50304, 50432, 50688, 51200}));
  EXPECT_EQ(local, (Degrees{50304, 25216, 12672, 6400}));
  EXPECT_EQ(padded_vocab(65535, 2), 65536);
  EXPECT_EQ(padded_vocab(32000, 2), 32000);
  EXPECT_EQ(padded_vocab(32001, 2), 32256);
}

TEST(Cases, S05_LocalTimesTpIsGlobal) {
  EXPECT_EQ(padded_vocab(151936, 2, 1), 151936);  // the case's framework does not pad to 128
  EXPECT_EQ(padded_vocab(151936, 2, 1) / 2, 75968);
  for (std::int64_t const vocab : {1, 127, 128, 129, 50257, 151936})
    for (std::int64_t const tp : {1, 2, 3, 8}) {
      std::int64_t const padded = padded_vocab(vocab, tp);
      EXPECT_EQ(padded % (128 * tp), 0);
      EXPECT_GE(padded, vocab);
      EXPECT_LT(padded - vocab, 128 * tp);
      EXPECT_EQ(padded_vocab(padded, tp), padded);
    }
}

TEST(Cases, C05_VisionHeadsOnlyWhereGiven) {
  ModelConfig model =
      read_model_config(SHARDBENCH_SOURCE_DIR "/tests/data/model_configs/qwen2.5-vl-3b-mixed-nesting.json");
  EXPECT_EQ(legal_tp(model, 4), (Degrees{1, 2, 4}));
  model.vision_heads = 0;
  EXPECT_EQ(legal_tp(model, 4), (Degrees{1, 2, 4}));
  model.vision_heads = 3;
  EXPECT_EQ(legal_tp(model, 4), (Degrees{1}));
}

TEST(Cases, C06_NoTpOfThreeForThirtyTwoHeads) {
  EXPECT_EQ(legal_tp(gpt(32, 64), 3), (Degrees{1, 2}));
  EXPECT_EQ(legal_tp(load_model("llama3.1-8b"), 3), (Degrees{1, 2}));
}

TEST(Cases, C11_LayersDoNotDecideTp) {
  ModelConfig const model = gpt(16, 64, 24);
  EXPECT_EQ(legal_tp(model, 16), (Degrees{1, 2, 4, 8, 16}));
  for (std::int64_t const tp : {3, 6}) {
    Cut cut;
    cut.tp = tp;
    EXPECT_TRUE(contains(reasons(model, cut), "16 query heads")) << tp;
  }
}

TEST(Cases, M12_HeadRuleOfLlama405b) {
  EXPECT_EQ(legal_tp(load_model("llama3.1-405b"), 8), (Degrees{1, 2, 4, 8}));
  EXPECT_TRUE(contains(tp_reasons("llama3.1-405b", 5), "128 query heads"));
}

Cut cut(std::int64_t dp, std::int64_t tp, std::int64_t pp, std::int64_t ep, std::int64_t etp = 1) {
  Cut cut;
  cut.dp = dp;
  cut.tp = tp;
  cut.pp = pp;
  cut.ep = ep;
  cut.etp = etp;
  return cut;
}

TEST(Cases, E02_BothMeshesCoverTheWorld) {
  ModelConfig model = gpt(16, 64, 8);
  model.moe = experts_of(24, 512);
  std::string const a = reasons(model, cut(2, 4, 1, 3));
  EXPECT_TRUE(contains(a, "1*3*1 = 3 does not divide 8 ranks; legal ep: 1, 2, 4, 8")) << a;
  std::string const b = reasons(model, cut(1, 4, 2, 2, 4));
  EXPECT_TRUE(contains(b, "4*2*2 = 16 does not divide 8 ranks")) << b;
  EXPECT_EQ(reasons(model, cut(1, 4, 2, 2)), "");
  EXPECT_EQ(reasons(model, cut(4, 2, 2, 8)), "");
  std::string const experts = reasons(model, cut(5, 1, 1, 5));
  EXPECT_TRUE(contains(experts, "ep: 5 does not divide 24 experts; legal: 1, 2, 3, 4, 6, 8, 12, 24")) << experts;
  EXPECT_TRUE(contains(reasons(gpt(16, 64), cut(2, 1, 1, 2)), "has no experts"));
}

TEST(CutRules, ExpertWidthFollowsEtpNotTp) {
  ModelConfig model = gpt(16, 64, 8);
  model.moe = experts_of(8, 100);
  EXPECT_EQ(reasons(model, cut(1, 8, 1, 8)), "");  // 100 % 8 != 0, and only etp cuts it
  std::string const message = reasons(model, cut(1, 8, 1, 1, 8));
  EXPECT_TRUE(contains(message, "etp: 8 does not divide expert ffn 100; legal: 1, 2, 4")) << message;
  model.moe->shared_ffn_hidden = 100;
  EXPECT_TRUE(contains(reasons(model, cut(1, 8, 1, 8)), "100 shared expert ffn"));
}

TEST(CutRules, LatentAttentionHasNoKvRule) {
  EXPECT_EQ(legal_tp(load_model("deepseek-v2-lite"), 16), (Degrees{1, 2, 4, 8, 16}));
}

TEST(Cases, P04_LeftoversGoInside) {
  EXPECT_EQ(split_layers(61, 4), (Degrees{15, 15, 16, 15}));
  EXPECT_EQ(split_layers(94, 4), (Degrees{23, 24, 24, 23}));
  EXPECT_EQ(split_layers(5, 1), (Degrees{5}));
  EXPECT_EQ(split_layers(30, 4, true, true), (Degrees{7, 8, 8, 7}));
  EXPECT_EQ(split_layers(31, 4, true, false), (Degrees{7, 8, 8, 8}));
  EXPECT_EQ(split_layers(31, 4, false, true), (Degrees{8, 8, 8, 7}));
  EXPECT_EQ(split_layers(2, 4, true, true), (Degrees{0, 1, 1, 0}));
  EXPECT_THROW(split_layers(3, 4), IllegalConfig);
  EXPECT_THROW(split_layers(0, 1), IllegalConfig);
  EXPECT_THROW(split_layers(3, 0), IllegalConfig);
  for (std::int64_t layers = 1; layers < 40; ++layers)
    for (std::int64_t stages = 1; stages <= layers; ++stages)
      for (bool const extra : {false, true}) {
        std::int64_t sum = 0;
        for (std::int64_t const n : split_layers(layers, stages, extra, extra)) {
          EXPECT_GE(n, 0);
          sum += n;
        }
        EXPECT_EQ(sum, layers) << layers << " over " << stages;
      }
}

TEST(CutRules, PipelineShapes) {
  ModelConfig const model = gpt(4, 8, 6);
  Cut p;
  p.pp = 7;
  EXPECT_TRUE(contains(reasons(model, p), "pp: 7 stages for 6 layers; legal: 1 to 6"));
  p = {};
  p.pp = 4;
  p.vpp = 2;
  p.schedule = ScheduleKind::interleaved;
  EXPECT_TRUE(contains(reasons(model, p), "needs 8 chunks"));
  p.pp = 3;
  EXPECT_EQ(reasons(model, p), "");
  p.schedule = ScheduleKind::gpipe;
  EXPECT_TRUE(contains(reasons(model, p), "schedule gpipe has 1 chunk a stage"));
  p.schedule = ScheduleKind::interleaved;
  p.vpp = 1;
  EXPECT_TRUE(contains(reasons(model, p), "needs vpp >= 2"));
  p = {};
  p.vpp = 2;
  p.schedule = ScheduleKind::interleaved;
  EXPECT_TRUE(contains(reasons(model, p), "with pp 1"));
  p = {};
  p.schedule = ScheduleKind::dualpipe;
  p.pp = 3;
  EXPECT_TRUE(contains(reasons(model, p), "even pp; legal: 2, 4"));
  p.pp = 6;
  EXPECT_EQ(reasons(model, p), "");  // stages are shared by both directions, so six layers do
  p.schedule = ScheduleKind::zb_v;
  EXPECT_TRUE(contains(reasons(model, p), "at most pp 3"));
}

TEST(CutRules, StatesAndDetails) {
  ModelConfig const model = gpt(4, 8);
  Cut p;
  p.dp = 4;
  p.shard_ranks = 3;
  p.zero_stage = 3;
  EXPECT_TRUE(contains(reasons(model, p), "shard-ranks: 3 does not divide dp 4; legal: 1, 2, 4"));
  p.shard_ranks = 2;
  EXPECT_EQ(reasons(model, p), "");
  p.zero_keep = ZeroKeep::all;
  EXPECT_EQ(reasons(model, p), "");
  p.zero_stage = 2;
  EXPECT_EQ(reasons(model, p), "");
  p.zero_keep = ZeroKeep::weights;
  EXPECT_TRUE(
      contains(reasons(model, p), "zero-keep: weights given with zero 2, which cuts none; legal: none, or zero 3"));
  p.zero_keep = ZeroKeep::all;
  p.zero_stage = 1;
  EXPECT_TRUE(
      contains(reasons(model, p), "zero-keep: all given with zero 1, which cuts no gradients; legal: none, or zero 2"));
  p.zero_keep = ZeroKeep::none;
  p.zero_stage = 0;
  EXPECT_TRUE(contains(reasons(model, p), "zero 0"));
  p = {};
  p.tp_sync_fraction = 0.5;
  p.sequence_parallel = true;
  EXPECT_TRUE(contains(reasons(model, p), "private channels"));
  p = {};
  p.recompute_layers = 2;
  EXPECT_TRUE(contains(reasons(model, p), "recompute none"));
  p = {};
  p.cp = 3;
  p.cp_method = CpMethod::ulysses;
  EXPECT_TRUE(contains(reasons(model, p), "cp: 3 does not divide the 4 query heads"));
  p.cp = 4;
  ModelConfig grouped = gpt(8, 8);
  EXPECT_EQ(reasons(grouped, p), "");
  grouped.kv_heads = 2;
  EXPECT_TRUE(
      contains(reasons(grouped, p), "cp: 4 does not divide the 2 kv heads a tp rank has (ulysses); legal: 1, 2"));
  p.cp = 2;
  EXPECT_EQ(reasons(grouped, p), "");
  p.tp = 2;
  EXPECT_TRUE(contains(reasons(grouped, p), "cp: 2 does not divide the 1 kv heads"));
  p = {};
  p.tp = 0;
  EXPECT_TRUE(contains(reasons(model, p), "tp: 0 given"));
  p = {};
  p.dp = p.pp = p.cp = p.tp = std::int64_t{1} << 20;
  EXPECT_TRUE(contains(reasons(model, p), "at most 1e9"));  // and the product never overflows
}

TEST(CutRules, DetectorsAreCutOverDataOnly) {
  ModelConfig const model = load_model("yolo26n");
  EXPECT_EQ(legal_tp(model, 8), (Degrees{1}));
  EXPECT_EQ(reasons(model, cut(8, 1, 1, 1)), "");
  EXPECT_TRUE(contains(reasons(model, cut(1, 2, 1, 1)), "tp: 2 given, yolo26n is cut over data only"));
}

TEST(CutRules, LegalTpIsExactlyWhatIllegalReasonsAllows) {
  for (std::string const& name : preset_names()) {
    ModelConfig const model = load_model(name);
    if (model.yolo) continue;
    Degrees allowed;
    for (std::int64_t tp = 1; tp <= 64; ++tp) {
      Cut cut;
      cut.tp = tp;
      if (illegal_reasons(model, cut).empty()) allowed.push_back(tp);
    }
    EXPECT_EQ(allowed, legal_tp(model, 64)) << name;
  }
}

TEST(Cut, Names) {
  EXPECT_EQ(to_string(ScheduleKind::one_f_one_b), "1f1b");
  EXPECT_EQ(to_string(ScheduleKind::dualpipe), "dualpipe");
  EXPECT_EQ(to_string(Recompute::selective), "selective");
  EXPECT_EQ(to_string(CpMethod::ulysses), "ulysses");
  Cut p;
  p.pp = 4;
  p.schedule = ScheduleKind::zb_v;
  EXPECT_EQ(chunks_per_rank(p), 2);
  EXPECT_EQ(model_chunks(p), 8);
  p.schedule = ScheduleKind::dualpipe;
  EXPECT_EQ(model_chunks(p), 4);
}

}  // namespace
}  // namespace shardbench
