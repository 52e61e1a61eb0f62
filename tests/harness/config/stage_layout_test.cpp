#include "harness/config/stage_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;
using test::refusal;
using Layers = std::vector<std::int64_t>;

Experiment flags(std::string const& text) { return experiment_of_command("shardbench describe " + text); }

/// What flags are refused with.
std::string refused(std::string const& text) {
  return refusal([&] { flags(text); });
}

std::string refused_layout(std::string const& layout) {
  return refusal([&] { parse_pipeline_layout(layout); });
}

Layers layers_of(std::string const& layout) {
  Layers layers;
  for (LayoutPiece const& piece : parse_pipeline_layout(layout)) layers.push_back(piece.layers);
  return layers;
}

// The example of Megatron Core's option, for DeepSeek-V3 on 16 stages of 2 virtual ones: 61 layers, a prediction layer
// and the loss in pieces of their own.
TEST(PipelineLayout, MegatronsExampleReadsAsItsPieces) {
  std::vector<LayoutPiece> const pieces = parse_pipeline_layout("Et*3|(tt|)*29,m|L");
  ASSERT_EQ(pieces.size(), 32u);
  EXPECT_TRUE(pieces[0].embedding);
  EXPECT_EQ(pieces[0].layers, 3);
  for (std::size_t i = 1; i <= 29; ++i) EXPECT_EQ(pieces[i].layers, 2);
  EXPECT_EQ(pieces[30].layers, 0);
  EXPECT_EQ(pieces[30].predictions, 1);
  EXPECT_TRUE(pieces[31].head);
  EXPECT_FALSE(pieces[30].head);
}

TEST(PipelineLayout, RepetitionsAndGroups) {
  EXPECT_EQ(layers_of("Ettt|tt L"), (Layers{3, 2}));
  EXPECT_EQ(layers_of("E|(t|tt|)*2 t*2|L"), (Layers{0, 1, 2, 1, 2, 2, 0}));
  EXPECT_EQ(layers_of("Et((t*2|)*2t|)*2L"), (Layers{3, 2, 1, 2, 2, 1, 0}));
  EXPECT_EQ(layers_of("EL"), (Layers{0}));
}

TEST(PipelineLayout, WhatIsWrongIsNamedWithItsPlace) {
  for (auto const& [text, words] :
       std::vector<std::pair<std::string, std::string>>{{"Ettx|L", "column 4: expected E, t, m, L"},
                                                        {"E(t|L", "column 6: expected ')'"},
                                                        {"Et)|L", "column 3: expected no ')'"},
                                                        {"Et*0|L", "expected a number from 1 behind '*'"},
                                                        {"*3E", "column 1: expected E, t, m, L"},
                                                        {"tt|L", "expected E in the first piece"},
                                                        {"Et|t", "one L, in the last"},
                                                        {"Et|tL|L", "one L, in the last"},
                                                        {"tE|L", "E in piece 1"},
                                                        {"Et|Lt", "t in piece 2"},
                                                        {"Et|mtL", "t in piece 2"},
                                                        {"E()|L", "expected E, t, m, L, '|' or '('"},
                                                        {"Et*99999999999|L", "expected a number from 1"},
                                                        {"Et*60000|t*60000L", "at most 65536 letters"}}) {
    std::string const said = refused_layout(text);
    EXPECT_TRUE(said.starts_with("--pipeline-layout: ") && contains(said, words)) << text << ": " << said;
  }
}

// Llama 3 405B on 16 stages of 8 chunks: its first and last chunk have the embedding and the head alone (The Llama 3
// Herd of Models, section 3.3.2).
TEST(StageLayout, EmbeddingAndHeadTakeALayersPlace) {
  std::string const cut = "--model llama3.1-405b --pp 16 --vpp 8 --global-batch 16";
  EXPECT_TRUE(contains(refused(cut), "--embedding-slot --head-slot"));
  Experiment const e = flags(cut + " --embedding-slot --head-slot");
  Layers const layers = piece_layers(e);
  ASSERT_EQ(layers.size(), 128u);
  EXPECT_EQ(layers.front(), 0);
  EXPECT_EQ(layers.back(), 0);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), 126);
  EXPECT_EQ(std::ranges::count(layers, 1), 126);
  EXPECT_EQ(piece_layers(flags(cut + " --pipeline-layout 'E|(t|)*126L'")), layers);
}

TEST(StageLayout, FirstAndLastStageWithFewerLayers) {
  EXPECT_EQ(piece_layers(flags("--model gpt2 --pp 4 --first-stage-layers 2")), (Layers{2, 3, 4, 3}));
  EXPECT_EQ(piece_layers(flags("--model gpt2 --pp 4 --first-stage-layers 2 --last-stage-layers 4")),
            (Layers{2, 3, 3, 4}));
  EXPECT_EQ(piece_layers(flags("--model gpt2 --pp 2 --last-stage-layers 3")), (Layers{9, 3}));
  // A stage's layers are those of all its chunks.
  EXPECT_EQ(piece_layers(flags("--model gpt2 --pp 2 --vpp 2 --first-stage-layers 4 --global-batch 2")),
            (Layers{2, 4, 2, 4}));
  EXPECT_EQ(piece_layers(flags("--model gpt2 --pp 2 --schedule zb-v --first-stage-layers 4 --global-batch 4")),
            (Layers{2, 4, 4, 2}));
  for (auto const& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"--pp 4 --first-stage-layers 10", "first-stage-layers: 2 of 12 layers are left for 3 other chunks"},
           {"--pp 2 --first-stage-layers 4 --last-stage-layers 4", "4 of 12 layers are left for 0 other chunks"},
           {"--pp 2 --vpp 2 --first-stage-layers 3", "3 layers do not divide over the 2 chunks of a stage"},
           {"--first-stage-layers 3", "first-stage-layers: given with pp 1"},
           {"--pp 4 --first-stage-layers 2 --head-slot", "given with embedding-slot or head-slot"},
           {"--pp 4 --head-slot --pipeline-layout 'Ettt|ttt|ttt|tttL'",
            "head-slot: true given with a pipeline-layout"}})
    EXPECT_TRUE(contains(refused("--model gpt2 " + text), words)) << text;
}

TEST(StageLayout, ALayoutMustSuitModelAndCut) {
  EXPECT_EQ(flags("--model gpt2 --pp 2 --pipeline-layout 'Et*3|t*3|t*3|t*3L' --global-batch 2").cut.vpp, 2)
      << "four pieces on two stages are two chunks each";
  for (auto const& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"--pp 2 --pipeline-layout 'Et*6|t*5L'", "pipeline-layout: 11 layers (t) given, gpt2 has 12"},
           {"--pp 2 --pipeline-layout 'Et*4|t*4|t*4L'", "3 pieces given, pp 2 with schedule 1f1b has 2"},
           {"--pp 2 --pipeline-layout 'Et*6|t*6L|'", "one L, in the last"}})
    EXPECT_TRUE(contains(refused("--model gpt2 " + text), words)) << text;
  std::string const v3 = "--model deepseek-v3 --pp 16 --global-batch 16 --pipeline-layout 'Et*3|(tt|)*29,m|L'";
  EXPECT_EQ(piece_layers(flags(v3)).size(), 32u);
  EXPECT_TRUE(contains(refused(v3 + " --mtp 1"), "m in another piece than L has no lowering"));
}

}  // namespace
}  // namespace shardbench
