#include "harness/config/size_rules.hpp"

#include <gtest/gtest.h>

#include "harness/config/experiment.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;
using test::refusal;

TEST(Cases, S08_Fp8Dims) {
  EXPECT_EQ(fp8_problem(896, 712), "712 columns are not a multiple of 16; pad to 720");
  EXPECT_EQ(fp8_problem(1, 256), "1 rows are not a multiple of 8; pad to 8");
  EXPECT_EQ(fp8_problem(2048, 767), "767 columns are not a multiple of 16; pad to 768");
  EXPECT_EQ(fp8_problem(2047, 767),
            "2047 rows are not a multiple of 8; pad to 2048, 767 columns are not a multiple of 16; pad to 768");
  EXPECT_EQ(fp8_problem(2048, 2048), "");
}

Experiment gpt2_of(std::int64_t global, std::int64_t micro, std::int64_t dp) {
  Experiment e;
  e.model_name = "gpt2";
  e.global_batch = global, e.micro_batch = micro, e.cut.dp = dp;
  return e;
}

// Case S05, S09: what a rank has times tp is the padded vocabulary, a whole number of blocks of 32 a rank, and padding
// what is padded changes nothing.
TEST(Cases, S05_ARankHasItsShareOfThePaddedVocabulary) {
  EXPECT_EQ(padded_vocab(151936, 2), 152'064);  // 594 * 256, never twice 151,936
  for (std::int64_t const vocab : {151936, 31936, 50257, 32001, 1})
    for (std::int64_t const tp : {1, 2, 3, 4, 8}) {
      std::int64_t const padded = padded_vocab(vocab, tp);
      EXPECT_EQ(padded / tp * tp, padded);
      EXPECT_GE(padded, vocab);
      EXPECT_LT(padded - vocab, 128 * tp);
      EXPECT_EQ(padded_vocab(padded, tp), padded);
      EXPECT_EQ(padded / tp % 32, 0);
    }
  EXPECT_EQ(padded_vocab(31936, 4), 32'256);
}

// Case C08: 256 = 2 * 18 * 7 does not multiply out; the number of microbatches follows or the sizes are refused.
TEST(Cases, C08_BatchMultipliesOut) {
  Experiment wrong = gpt2_of(256, 2, 7);
  std::string const message = refusal([&] { resolve(wrong); });
  EXPECT_TRUE(contains(message, "256 is not a multiple of micro-batch * dp = 2 * 7 = 14; nearest: 252, 266"))
      << message;
  Experiment small = gpt2_of(8, 16, 1);
  EXPECT_TRUE(
      contains(refusal([&] { resolve(small); }), "8 is not a multiple of micro-batch * dp = 16 * 1 = 16; nearest: 16"));
  Experiment right = gpt2_of(256, 4, 8);
  resolve(right);
  EXPECT_EQ(right.microbatches(), 8);
  Experiment derived = gpt2_of(0, 3, 5);
  resolve(derived);
  EXPECT_EQ(derived.global_batch, 15);
}

TEST(Cases, C09_ByteSuffixesAreBinary) {
  EXPECT_EQ(parse_bytes("step", "8"), 8);
  EXPECT_EQ(parse_bytes("step", "64K"), 65536);
  EXPECT_EQ(parse_bytes("step", "2M"), 2'097'152);
  EXPECT_EQ(parse_bytes("step", "1G"), 1'073'741'824);
  for (char const* text : {"2X", "1.5M", "", "K", "-1", "2MB", "2 M", "1e3", "99999999999999999999", "9999999999G"})
    EXPECT_TRUE(contains(refusal([&] { parse_bytes("step", text); }), std::string("--step: '") + text + "'")) << text;
}

TEST(Cases, E03_CapacityIsCappedAtTheTokens) {
  EXPECT_EQ(expert_capacity(4096, 1, 64, 16384), 4096);
  auto const gib = [](std::int64_t rows) { return static_cast<double>(rows * 64 * 4096 * 2) / 0x1p30; };
  EXPECT_EQ(gib(16384 * 4096 / 64), 512) << "of 64 experts' rows in bf16, uncapped";
  EXPECT_EQ(gib(expert_capacity(4096, 1, 64, 16384)), 2);
  EXPECT_EQ(expert_capacity(4096, 1, 64, 1), 64);
  EXPECT_EQ(expert_capacity(100, 2, 64, 1.25), 4);  // ceil(1.25 * 3.125)
  Experiment e;
  e.model_name = "mixtral-8x7b";
  e.capacity = 1.25;
  resolve(e);
  EXPECT_TRUE(warnings(e).empty());
  e.capacity = 4;  // 4 x top 2 = 8 experts
  ASSERT_EQ(warnings(e).size(), 1u);
  EXPECT_TRUE(contains(warnings(e).front(), "capacity: 4 x top 2 is at least the 8 experts")) << warnings(e).front();
  e.router_skew = 5;
  EXPECT_TRUE(contains(refusal([&] { resolve(e); }),
                       "router-skew: 5 given; legal: 0 (balance), or 1 to 4 = 8 experts / top 2"));
}

// Case L05: two copies of 16 ranks need 32.
TEST(Cases, L05_CopiesNeedTheirRanks) {
  Experiment e = gpt2_of(0, 1, 2);
  e.model_name = "llama3.1-8b";
  e.cut.tp = 8, e.ranks = 8;
  std::string const message = refusal([&] { resolve(e); });
  EXPECT_TRUE(contains(message, "16") && contains(message, "8")) << message;
}

// Case L06: no batch is chosen silently, and 17 samples are no equal share of 2 ranks.
TEST(Cases, L06_DdpBatch) {
  Experiment automatic = gpt2_of(-1, 1, 2), odd = gpt2_of(17, 1, 2);
  EXPECT_TRUE(contains(refusal([&] { resolve(automatic); }), "global-batch -1"));
  EXPECT_TRUE(contains(refusal([&] { resolve(odd); }), "17 is not a multiple of micro-batch * dp = 1 * 2 = 2"));
}

}  // namespace
}  // namespace shardbench
