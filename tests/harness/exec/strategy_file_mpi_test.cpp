// The strategies that ship as files, executed; and cuts that cannot be.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "kernels/core/error.hpp"
#include "tests/harness/exec/expect_parity.hpp"
#include "tests/harness/exec/moe_models.hpp"

namespace shardbench::test {
namespace {

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (auto const& entry : std::filesystem::directory_iterator(SHARDBENCH_SOURCE_DIR "/bench/experiments/strategies"))
    files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

/// A small experiment with a strategy file.
Experiment cut_by(std::string const& file, ModelConfig const& model, Cut const& p) {
  Experiment e = small_experiment(model, p);
  e.strategy = file;
  resolve(e);
  return e;
}

TEST(StrategyFiles, EachOneRunsWithParity) {
  std::int64_t const n = world().size();
  EXPECT_GE(shipped().size(), 3u);
  for (std::string const& file : shipped())
    for (bool const llama : {false, true}) {
      Cut p = cut(llama || n == 2 ? 1 : 2, llama || n == 2 ? n : n / 2, 1);
      expect_parity(cut_by(file, llama ? small_llama(2, 8, 8) : small_gpt(2), p));
      p.tp_overlap = TpOverlap::chunked;
      if (n <= 4) expect_parity(cut_by(file, llama ? small_llama(2, 8, 8) : small_gpt(2), p));
    }
}

TEST(StrategyFiles, MegatronsFileIsTheBuiltInCut) {
  Cut p = cut(1, world().size(), 1);
  StepProgram const built_in = lower(small_experiment(small_llama(2, 8, 8), p), world().rank());
  StepProgram const file =
      lower(cut_by(SHARDBENCH_SOURCE_DIR "/bench/experiments/strategies/megatron.yaml", small_llama(2, 8, 8), p),
            world().rank());
  auto const traffic = [](StepProgram const& program) { return count_step(program, Replay(program)).traffic[0]; };
  EXPECT_EQ(traffic(file).payload_bytes, traffic(built_in).payload_bytes);
  EXPECT_EQ(traffic(file).calls, traffic(built_in).calls);
}

TEST(StrategyFiles, VocabularyOnlyMovesNothingInBlocks) {
  Experiment e = cut_by(SHARDBENCH_SOURCE_DIR "/bench/experiments/strategies/vocabulary_only.yaml", small_llama(2),
                        cut(1, world().size(), 1));
  e.scope = Scope::layer;
  StepProgram const program = lower(e, 0);
  EXPECT_EQ(count_step(program, Replay(program)).traffic[0].payload_bytes, 0);
}

std::string refusal_of(std::string const& yaml, ModelConfig const& model) {
  auto const path =
      std::filesystem::temp_directory_path() / fmt::format("shardbench_cut_{}_{}.yaml", world().size(), world().rank());
  std::ofstream(path) << yaml;
  std::string message;
  try {
    lower(cut_by(path.string(), model, cut(1, world().size(), 1)), world().rank());
  } catch (IllegalConfig const& error) {
    message = error.what();
  }
  std::filesystem::remove(path);
  return message;
}

TEST(StrategyFiles, AnImpossibleCutNamesTensorAndDim) {
  std::int64_t const n = world().size();
  ModelConfig narrow = small_llama(2, 8, 8);
  narrow.hidden = 64 + n / 2;  // features that tp does not divide
  std::string const message = refusal_of("weights: {mlp.up: {tp: shard(1)}}", narrow);
  EXPECT_NE(message.find("mlp.up"), std::string::npos) << message;
  EXPECT_NE(message.find("dim 1"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  // Private streams need a pair of column and row cuts.
  std::string const pair = refusal_of(
      "weights: {attention.qkv: {tp: shard(0)}, attention.out: {tp: shard(1)}}\nactivations: {block: {tp: private(8)}}",
      small_llama(2, 8, 8));
  EXPECT_NE(pair.find("mlp.up"), std::string::npos) << pair;
}

TEST(StrategyFiles, PrivateChannelsAsData) {
  auto const path = std::filesystem::temp_directory_path() /
                    fmt::format("shardbench_private_{}_{}.yaml", world().size(), world().rank());
  std::ofstream(path)
      << "weights: {embedding.word: {tp: shard(0)}, attention.qkv: {tp: shard(0)}, attention.out: {tp: shard(1)}, "
         "mlp.up: {tp: shard(0)}, mlp.down: {tp: shard(1)}, head: {tp: shard(0)}}\n"
         "activations: {block: {tp: private(24)}}\n";
  expect_parity(cut_by(path.string(), small_llama(2, 8, 8), cut(1, world().size(), 1)));
  std::filesystem::remove(path);
}

/// Every weight by chance whole or cut along one of its dims, and the stream whole or cut along the sequence.
std::string drawn_strategy(std::mt19937& random) {
  std::string weights;
  for (WeightRole const& role : weight_roles()) {
    if (role.name == "norm" || role.name == "embedding.position") continue;
    auto const choice = random() % 3;
    if (choice > 0)
      weights += fmt::format("{}{}: {{tp: shard({})}}", weights.empty() ? "" : ", ", role.name, choice - 1);
  }
  return fmt::format("weights: {{{}}}\nactivations: {{block: {{tp: {}}}}}\n", weights,
                     random() % 2 ? "replicate" : "shard(sequence)");
}

/// Parity, or a refusal of one line.
void expect_parity_or_refusal(std::string const& yaml, ModelConfig const& model) {
  SCOPED_TRACE(yaml);
  auto const path = std::filesystem::temp_directory_path() /
                    fmt::format("shardbench_draw_{}_{}.yaml", world().size(), world().rank());
  std::ofstream(path) << yaml;
  std::string refusal;
  try {
    Experiment e = cut_by(path.string(), model, cut(1, world().size(), 1));
    e.global_batch = 2;
    resolve(e);
    lower(e, world().rank());
    expect_equal_steps(e, 1);
  } catch (IllegalConfig const& error) {
    refusal = error.what();
  }
  EXPECT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  std::filesystem::remove(path);
}

TEST(StrategyFiles, UncutEndsOfACutSequence) {
  if (world().size() != 2) return;
  for (ModelConfig const& model : {small_llama(2), small_gpt(2), small_gemma2(2), small_mixtral(), small_latent(2)})
    for (char const* weights : {"weights: {}", "weights: {mlp.up: {tp: shard(0)}, mlp.down: {tp: shard(1)}}"})
      expect_parity_or_refusal(fmt::format("{}\nactivations: {{block: {{tp: shard(sequence)}}}}\n", weights), model);
}

TEST(StrategyFiles, DrawnOnesHaveParityOrARefusal) {
  if (world().size() != 2) return;
  char const* const seed = std::getenv("SHARDBENCH_TEST_SEED");
  std::mt19937 random(seed ? static_cast<unsigned>(std::atoi(seed)) : 1u);
  for (int draw = 0; draw < 12; ++draw)
    for (ModelConfig const& model : {small_llama(2), small_gpt(2), small_gemma2(2), small_mixtral(), small_latent(2)})
      expect_parity_or_refusal(drawn_strategy(random), model);
}

}  // namespace
}  // namespace shardbench::test
