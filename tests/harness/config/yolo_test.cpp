#include "harness/config/yolo.hpp"

#include <gtest/gtest.h>

namespace shardbench {
namespace {

struct Published {
  char const* name;
  std::int64_t parameters;
  double gflops;
};

class Yolo26 : public testing::TestWithParam<Published> {};

TEST_P(Yolo26, ParametersExactAndFlopsWithinTwoPercent) {
  auto const& [name, parameters, gflops] = GetParam();
  ModelConfig const model = load_model(name);
  ASSERT_TRUE(model.yolo);
  ParameterCount const count = count_parameters(model);
  EXPECT_EQ(count.total, parameters);
  EXPECT_EQ(count.total, count.blocks + count.head + count.norms);
  EXPECT_NEAR(static_cast<double>(yolo_flops(*model.yolo, true)) / 1e9 / gflops, 1, 0.02)
      << "inference " << static_cast<double>(yolo_flops(*model.yolo, false)) / 1e9;
}

INSTANTIATE_TEST_SUITE_P(Sizes, Yolo26,
                         testing::Values(Published{"yolo26n", 2'572'280, 6.1}, Published{"yolo26s", 10'009'784, 22.8},
                                         Published{"yolo26m", 21'896'248, 75.4}, Published{"yolo26l", 26'299'704, 93.8},
                                         Published{"yolo26x", 58'993'368, 209.5}),
                         [](auto const& size) { return std::string(size.param.name); });

TEST(Yolo, ShapesFollowTheStrides) {
  YoloConfig const config = *load_model("yolo26n").yolo;
  std::vector<YoloBlock> const blocks = yolo_blocks(config);
  EXPECT_EQ(blocks.front().convs.front().in, 3);
  EXPECT_EQ(blocks.front().convs.front().out_size, 320);
  EXPECT_EQ(blocks.back().kind, "detect");
  for (YoloBlock const& block : blocks)
    for (ConvLayer const& layer : block.convs) {
      EXPECT_GT(layer.out, 0) << layer.name;
      EXPECT_EQ(layer.in % layer.groups, 0) << layer.name;
      EXPECT_EQ(640 % layer.out_size, 0) << layer.name;
    }
  EXPECT_LT(yolo_flops(config, false), yolo_flops(config, true));
}

TEST(Yolo, FlopsGrowWithTheImage) {
  YoloConfig config = *load_model("yolo26n").yolo;
  std::int64_t const small = yolo_flops(config, true);
  config.image_size = 1280;
  // Convolutions grow by 4, the attention products by 16.
  EXPECT_GT(yolo_flops(config, true), 4 * small);
  EXPECT_LT(yolo_flops(config, true), 5 * small);
}

}  // namespace
}  // namespace shardbench
