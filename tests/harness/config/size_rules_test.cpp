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
  EXPECT_EQ(refusal([] { check_fp8_dims(896, 712); }), "fp8: 712 columns are not a multiple of 16; pad to 720");
  EXPECT_TRUE(contains(refusal([] { check_fp8_dims(1, 256); }), "1 rows"));
  EXPECT_TRUE(contains(refusal([] { check_fp8_dims(2048, 767); }), "767 columns"));
  EXPECT_NO_THROW(check_fp8_dims(2048, 2048));
}

TEST(Cases, S09_LocalBlocks) {
  EXPECT_EQ(refusal([] { check_local_block("vocab", 31936, 4, 32); }),
            "vocab: 31936 over tp 4 gives 7984 a rank, not a multiple of 32; pad to 32000");
  EXPECT_TRUE(contains(refusal([] { check_local_block("tokens", 16368, 4, 8); }),
                       "4092 a rank, not a multiple of 8; pad to 16384"));
  EXPECT_EQ(check_local_block("vocab", 32000, 4, 32), 8000);
}

TEST(Cases, C08_BatchTriple) {
  std::string const message = refusal([] { complete_batch(256, 2, 18, 7); });
  EXPECT_TRUE(contains(message, "256 given") && contains(message, "2 * 18 * 7 = 252")) << message;
  EXPECT_THROW(complete_batch(8, 2, 1, 1), IllegalConfig);
  EXPECT_THROW(complete_batch(256, 4, 8, 1), IllegalConfig);
  EXPECT_EQ(complete_batch(256, 4, {}, 8).accumulation, 8);
  EXPECT_EQ(complete_batch(256, {}, 8, 8).micro, 4);
  EXPECT_EQ(complete_batch({}, 2, 18, 7).global, 252);
  EXPECT_THROW(complete_batch(256, 2, {}, 7), IllegalConfig);
  EXPECT_THROW(complete_batch(256, {}, {}, 7), InputError);
  EXPECT_THROW(complete_batch(256, 0, {}, 7), InputError);
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

TEST(Cases, L05_ReplicasThatFit) {
  std::string const message = refusal([] { check_replicas(2, 16, 16); });
  EXPECT_TRUE(contains(message, "need 32, 16 given; possible: 1")) << message;
  EXPECT_EQ(check_replicas(1, 16, 16), 1);
}

TEST(Cases, L06_DdpBatch) {
  EXPECT_TRUE(contains(refusal([] { ddp_batch(-1, 2); }), "automatic"));
  EXPECT_TRUE(contains(refusal([] { ddp_batch(17, 2); }), "17 must be a multiple of the 2 ranks"));
  EXPECT_EQ(ddp_batch(16, 2), 8);
}

TEST(Cases, P05_FlexibleRounds) {
  EXPECT_EQ(flexible_rounds(10, 4), 2);
  EXPECT_EQ(flexible_rounds(3, 4), 1);
  EXPECT_THROW(flexible_rounds(11, 4), IllegalConfig);
}

}  // namespace
}  // namespace shardbench
