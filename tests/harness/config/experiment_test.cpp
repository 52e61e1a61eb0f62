#include "harness/config/experiment.hpp"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "harness/config/knob.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;
using test::refusal;

/// What a command line of "--flag value" pairs and switches makes; the words are free of blanks.
Experiment parse(std::string const& flags) {
  Experiment e;
  std::istringstream in(flags);
  for (std::string word; in >> word;) {
    std::string const flag = word.substr(2);
    std::string value = "true";
    if (!find_knob(flag).is_switch()) in >> value;
    set_field(e, flag, value);
  }
  return e;
}

std::string resolved_refusal(std::string const& flags) {
  return refusal([&] {
    Experiment e = parse(flags);
    resolve(e);
  });
}

TEST(Fields, ReadStrictly) {
  for (char const* text : {"2x", "", "1e3", "-1", "0", " 2", "2 ", "+2", "0x2", "2.0", "two"}) {
    Experiment e;
    std::string const message = refusal([&] { set_field(e, "tp", text); });
    EXPECT_EQ(message, std::string("--tp: '") + text + "' is not an integer >= 1");
    EXPECT_EQ(e.cut.tp, 1);
  }
  Experiment e;
  EXPECT_TRUE(contains(refusal([&] { set_field(e, "tp", "99999999"); }), "is above the limit"));
  EXPECT_TRUE(contains(refusal([&] { set_field(e, "tp", "99999999999999999999"); }), "is not an integer >= 1"));
  EXPECT_EQ(refusal([&] { set_field(e, "zero", "4"); }), "--zero: '4' is not an integer from 0 to 3");
  EXPECT_EQ(refusal([&] { set_field(e, "precision", "fp16"); }), "--precision: 'fp16' is not one of fp32|bf16|fp8");
  EXPECT_EQ(refusal([&] { set_field(e, "schedule", "1F1B"); }),
            "--schedule: '1F1B' is not one of gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipe");
  EXPECT_EQ(refusal([&] { set_field(e, "check", "yes"); }), "--check: 'yes' is not true or false");
  for (char const* text : {"1e-1", "nan", "inf", "-0.5", "1.5", ".", "0.5.5", ""})
    EXPECT_TRUE(contains(refusal([&] { set_field(e, "tp-sync-fraction", text); }), "is not a number from 0 to 1"))
        << text;
  EXPECT_TRUE(contains(refusal([&] { set_field(e, "model", ""); }), "--model"));
  set_field(e, "tp-sync-fraction", "0.25");
  EXPECT_EQ(e.cut.tp_sync_fraction, 0.25);
}

TEST(Fields, UnknownFlagSuggests) {
  Experiment e;
  EXPECT_EQ(refusal([&] { set_field(e, "microbatch", "1"); }),
            "--microbatch: unknown flag, did you mean --micro-batch?");
  EXPECT_EQ(refusal([&] { set_field(e, "tpp", "1"); }), "--tpp: unknown flag, did you mean --tp?");
  EXPECT_EQ(refusal([&] { set_field(e, "zzzzzzzzzzzz", "1"); }), "--zzzzzzzzzzzz: unknown flag");
}

TEST(Fields, CommandIsShortAndQuoted) {
  EXPECT_EQ(command_flags(parse("--tp 2 --check")), "--model gpt2 --tp 2 --check");
  Experiment e;
  set_field(e, "model", "my models/it's.json");
  EXPECT_EQ(command_flags(e), "--model 'my models/it'\\''s.json'");
}

TEST(Resolve, FillsWhatIsOpen) {
  Experiment e = parse("--model gpt2 --layers 4 --dp 2 --tp 2 --micro-batch 3");
  resolve(e);
  EXPECT_EQ(std::tuple(e.model.layers, e.seq, e.global_batch, e.ranks, e.microbatches()), std::tuple(4, 1024, 6, 4, 1));
  Experiment vision = parse("--model vit-h");
  resolve(vision);
  EXPECT_EQ(vision.seq, 257);
  Experiment small = parse("--model gpt2 --pp 2 --vpp 3 --global-batch 4");
  resolve(small);
  EXPECT_EQ(small.cut.schedule, ScheduleKind::interleaved);
  Experiment again = small;
  resolve(again);
  EXPECT_EQ(command_flags(again), command_flags(small));
}

TEST(Resolve, KeepsAModelThatIsThere) {
  Experiment e;
  e.model = load_model("smollm-360m");
  e.model.name = "mine";
  resolve(e);
  EXPECT_EQ(e.model.name, "mine");
  set_field(e, "model", "gpt2");
  resolve(e);
  EXPECT_EQ(e.model.name, "gpt2");
}

TEST(Resolve, RanksMustMatch) {
  EXPECT_EQ(resolved_refusal("--dp 2 --tp 4 --ranks 4"), "ranks: 4 given, dp*tp*pp*cp = 8 needed");
  EXPECT_EQ(resolved_refusal("--dp 2 --tp 2 --ranks 4"), "");
}

TEST(Resolve, TwentySevenPointsOfWhichSixRun) {
  Experiment const base = parse("--model gpt2 --layers 4 --seq 128 --micro-batch 1 --global-batch 8 --ranks 4 --check");
  SweepLists const lists{{{"dp", {"1", "2", "4"}}, {"tp", {"1", "2", "4"}}, {"pp", {"1", "2", "4"}}}};
  int legal = 0, skipped = 0;
  for (Experiment& point : expand(base, lists)) {
    try {
      resolve(point);
      ++legal;
    } catch (IllegalConfig const&) {
      ++skipped;
    }
  }
  EXPECT_EQ(legal, 6);
  EXPECT_EQ(skipped, 21);
}

TEST(Cases, C08_BatchMustMultiplyOut) {
  EXPECT_EQ(resolved_refusal("--global-batch 256 --micro-batch 2 --dp 7"),
            "global-batch: 256 is not a multiple of micro-batch * dp = 2 * 7 = 14; nearest: 252, 266");
  EXPECT_EQ(resolved_refusal("--global-batch 8 --micro-batch 2 --dp 2"), "");
}

TEST(Cases, X01_ZigzagNeedsTwoPiecesARank) {
  EXPECT_EQ(resolved_refusal("--model llama3.1-8b --seq 2999 --cp 4"),
            "cp: seq 2999 is not a multiple of 2*cp = 8; pad to 3000");
  EXPECT_EQ(resolved_refusal("--model llama3.1-8b --seq 3000 --cp 4"), "");
  EXPECT_EQ(resolved_refusal("--model llama3.1-8b --seq 3004 --cp 4 --cp-method ulysses"), "");
  EXPECT_TRUE(contains(resolved_refusal("--model vit-h --cp 2"),
                       "seq 257 is not a multiple of cp = 2; an image of 224 makes 16*16 patches and a class token, "
                       "which are not padded"));
}

TEST(Cases, P05_MicrobatchesAndStages) {
  EXPECT_EQ(resolved_refusal("--pp 4 --global-batch 2"), "");  // 1F1B with fewer microbatches than stages terminates
  EXPECT_EQ(resolved_refusal("--pp 4 --vpp 2 --global-batch 10"), "");
  EXPECT_EQ(resolved_refusal("--pp 4 --vpp 2 --global-batch 12"), "");
  EXPECT_TRUE(
      contains(resolved_refusal("--pp 4 --schedule dualpipe --global-batch 5"), "even number of at least 2*pp = 8"));
  EXPECT_TRUE(
      contains(resolved_refusal("--pp 4 --schedule dualpipe --global-batch 2"), "even number of at least 2*pp = 8"));
  EXPECT_EQ(resolved_refusal("--pp 4 --schedule dualpipe --global-batch 8"), "");
}

TEST(Resolve, SequenceRules) {
  EXPECT_TRUE(contains(resolved_refusal("--seq 2000"), "seq: 2000 given, gpt2 has 1024 learned positions"));
  EXPECT_TRUE(contains(resolved_refusal("--seq 130 --tp 4 --sequence-parallel"),
                       "130 tokens of a cp rank are not a multiple of tp 4; pad to 132"));
  EXPECT_TRUE(contains(resolved_refusal("--model vit-h --seq 256"), "makes 257 tokens"));
  EXPECT_TRUE(contains(resolved_refusal("--layers 13"), "--layers: 13 is more than the 12 that gpt2 has"));
}

TEST(Resolve, PhaseRules) {
  EXPECT_TRUE(contains(resolved_refusal("--phase decode --zero 1"), "zero: 1 given, decode has no optimizer"));
  EXPECT_TRUE(contains(resolved_refusal("--phase prefill --recompute full"), "no backward pass"));
  EXPECT_TRUE(contains(resolved_refusal("--phase decode --tp 2 --sequence-parallel"), "a decoded token is not cut"));
  EXPECT_EQ(resolved_refusal("--phase decode --tp 2"), "");
}

TEST(Resolve, Fp8Rules) {
  EXPECT_EQ(resolved_refusal("--precision fp8 --model llama3.1-8b --seq 128"), "");
  EXPECT_TRUE(
      contains(resolved_refusal("--precision fp8 --model llama3.1-8b --seq 4"), "4 rows are not a multiple of 8"));
}

TEST(Resolve, IllegalIsNotBadInput) {
  Experiment illegal = parse("--tp 5"), unknown = parse("--model nothing-like-it");
  EXPECT_THROW(resolve(illegal), IllegalConfig);
  EXPECT_THROW(resolve(unknown), InputError);
  try {
    resolve(unknown);
  } catch (IllegalConfig const&) {
    FAIL() << "an unknown model is bad input, not a point to skip";
  } catch (InputError const&) {
  }
}

/// A random experiment that is legal for its model: from the degrees that the rules allow.
Experiment random_experiment(std::mt19937& random) {
  auto const pick = [&](auto const& values) { return values[random() % values.size()]; };
  Experiment e;
  set_field(e, "model", pick(std::vector<std::string>{"gpt2", "smollm-360m", "llama3.1-8b", "mixtral-8x7b", "vit-h"}));
  ModelConfig const model = load_model(e.model_name);
  std::vector<std::int64_t> const small{1, 2, 4};
  e.cut.tp = pick(legal_tp(model, 8));
  e.cut.pp = pick(small);
  e.cut.dp = pick(small);
  e.cut.zero_stage = static_cast<int>(random() % 4);
  e.micro_batch = pick(small);
  e.global_batch = e.micro_batch * e.cut.dp * e.cut.pp * 2;
  e.cut.schedule = pick(std::vector{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1});
  e.cut.recompute = static_cast<Recompute>(random() % 3);
  e.precision = random() % 2 == 0 ? Dtype::f32 : Dtype::bf16;
  e.check = random() % 2 == 0;
  e.bucket_mb = static_cast<double>(random() % 1000 + 1) / 7;
  e.max_seconds = 1e-3 * static_cast<double>(random() % 99999 + 1);
  e.seed = random();
  if (random() % 2 == 0) resolve(e);
  return e;
}

TEST(Resolve, WhatOnlyAGpuHonoursIsRefusedOnACpu) {
  for (char const* flags : {"--attention cudnn", "--nccl-algo Ring", "--nccl-proto LL", "--nccl-channels 1",
                            "--share-gpu", "--cuda-graph"}) {
    std::string const words = resolved_refusal(std::string("--device cpu --tp 2 ") + flags);
    EXPECT_NE(words.find(flags), std::string::npos) << words;
    EXPECT_NE(words.find("--device cuda"), std::string::npos) << words;
    EXPECT_EQ(resolved_refusal(std::string("--device cuda --tp 2 ") + flags), "");
  }
}

std::string warning_of(std::string const& flags) {
  Experiment e = parse(flags);
  resolve(e);
  std::string text;
  for (std::string const& line : warnings(e)) text += (text.empty() ? "" : "\n") + line;
  return text;
}

TEST(Resolve, AKnobOfAnAxisWithOneRankIsPlayedAndSaid) {
  for (auto const& [knob, axis] :
       std::vector<std::pair<std::string, std::string>>{{"--zero 1", "--dp 2"},
                                                        {"--zero 3", "--cp 2"},
                                                        {"--zero 1 --shard-ranks 1", "--cp 2"},
                                                        {"--zero 3 --zero-keep all", "--dp 2"},
                                                        {"--bucket-mb 25", "--dp 2"},
                                                        {"--sequence-parallel", "--tp 2"},
                                                        {"--tp-sync-fraction 0.5", "--tp 2"},
                                                        {"--tp-overlap chunked --tp-overlap-chunks 2", "--tp 2"},
                                                        {"--strategy cut.yaml", "--tp 2"},
                                                        {"--cp-method ring", "--cp 2"},
                                                        {"--schedule 1f1b", "--pp 2"},
                                                        {"--schedule zb-v", "--pp 2 --global-batch 4"},
                                                        {"--verify-collectives", "--dp 2"},
                                                        {"--share-gpu", "--dp 2"},
                                                        {"--nccl-algo Ring", "--dp 2"},
                                                        {"--nccl-proto LL", "--tp 2"},
                                                        {"--nccl-channels 2", "--pp 2"}}) {
    std::string const flag = knob.substr(2, knob.find(' ') - 2), alone = warning_of(knob);
    EXPECT_TRUE(contains(alone, flag + ": ") && contains(alone, "has no effect at")) << knob << ": " << alone;
    EXPECT_EQ(warning_of(knob + " " + axis), "") << knob;
  }
  EXPECT_EQ(warning_of("--zero 0 --sequence-parallel --tp 2 --tp-overlap none --tp-sync-fraction 1"), "");
  EXPECT_EQ(warning_of("--model mixtral-8x7b --tp 2 --zero 1"), "") << "experts have copies over tp";
  Experiment direct;
  direct.cut.zero_stage = 1;
  resolve(direct);
  EXPECT_TRUE(warnings(direct).empty()) << "nobody asked for it";
}

TEST(Resolve, FlagsThatContradictEachOtherAreRefused) {
  for (auto const& [flags, words] : std::vector<std::pair<std::string, std::string>>{
           {"--schedule 1f1b --pp 2 --vpp 2 --global-batch 4", "schedule: 1f1b given with vpp 2"},
           {"--schedule gpipe --pp 2 --vpp 2", "vpp: 2 given, schedule gpipe has 1 chunk a stage"},
           {"--schedule zb-v --pp 2 --vpp 3", "vpp: 3 given, schedule zb-v has 2 chunks a stage"},
           {"--schedule interleaved --pp 2", "interleaved needs vpp >= 2"},
           {"--mtp-weight 0.3", "mtp-weight: 0.3 given with mtp 0"},
           {"--tp 2 --tp-overlap-chunks 2", "tp-overlap-chunks: 2 given with tp-overlap none"},
           {"--phase prefill --bucket-mb 1", "bucket-mb: 1 given with phase prefill"},
           {"--phase decode --gradient-dtype bf16", "gradient-dtype: bf16 given with phase decode"},
           {"--recompute full --recompute-layers 13", "a chunk has 12 of the 12 layers at most; legal: 1 to 12"},
           {"--recompute full --recompute-layers 4 --pp 4", "a chunk has 3 of the 12"},
           {"--model yolo26n --vpp 2", "vpp: 2 given"},
           {"--model yolo26n --etp 2", "etp: 2 given"}}) {
    EXPECT_TRUE(contains(resolved_refusal(flags), words)) << flags << ": " << resolved_refusal(flags);
  }
  EXPECT_EQ(resolved_refusal("--pp 2 --vpp 2 --global-batch 4"), "");
  EXPECT_EQ(resolved_refusal("--recompute full --recompute-layers 3 --pp 4"), "");
}

TEST(Fields, CommandReadsBackToTheSameExperiment) {
  std::mt19937 random(20260);
  for (int i = 0; i < 500; ++i) {
    Experiment e = random_experiment(random);
    Experiment back = parse(command_flags(e));
    for (Knob const& knob : knobs()) ASSERT_EQ(knob.get(back), knob.get(e)) << command_flags(e);
    EXPECT_EQ(back.cut, e.cut);
    EXPECT_EQ(back.bucket_mb, e.bucket_mb);
    resolve(e);
    resolve(back);
    EXPECT_EQ(command_flags(back), command_flags(e));
    EXPECT_EQ(back.model.layers, e.model.layers);
  }
}

}  // namespace
}  // namespace shardbench
