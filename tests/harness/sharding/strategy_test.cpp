#include "harness/sharding/strategy.hpp"

#include <gtest/gtest.h>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

ModelConfig model() {
  ModelConfig m;
  m.hidden = 64, m.heads = 8, m.kv_heads = 2, m.head_dim = 8, m.ffn_hidden = 128, m.layers = 1, m.vocab = 100;
  return m;
}

TEST(MegatronStrategy, ColumnsThenRows) {
  Cut p;
  p.tp = 2;
  Strategy const s = megatron_strategy(model(), p);
  for (char const* role : {"attention.qkv", "mlp.up", "embedding.word", "head"})
    EXPECT_TRUE(is_shard(s.weight(role), 0)) << role;
  for (char const* role : {"attention.out", "mlp.down"}) EXPECT_TRUE(is_shard(s.weight(role), 1)) << role;
  for (char const* role : {"norm", "embedding.position", "moe.router"})
    EXPECT_TRUE(is_replicate(s.weight(role))) << role;
  EXPECT_TRUE(is_replicate(s.block));
}

TEST(MegatronStrategy, BlockLayoutFollowsTheConfiguration) {
  Cut p;
  p.tp = 4;
  EXPECT_EQ(std::get<Shard>(megatron_strategy(model(), p).weight("attention.qkv")).replicas, 2)
      << "two KV heads over four ranks";
  p.sequence_parallel = true;
  EXPECT_EQ(megatron_strategy(model(), p).block, Placement{Shard{0}});
  p.sequence_parallel = false;
  p.tp_sync_fraction = 0.5;
  EXPECT_EQ(megatron_strategy(model(), p).block, Placement{Private{32}});
  p = Cut{};
  EXPECT_TRUE(megatron_strategy(model(), p).weights.empty());
}

TEST(ParseStrategy, ReadsTheTable) {
  Strategy const s = parse_strategy(
      "name: my-cut\n"
      "weights: {attention.qkv: {tp: shard(0)}, attention.out: {tp: shard(1)}, norm: {tp: replicate}}\n"
      "activations: {block: {tp: shard(sequence)}}\n",
      "file");
  EXPECT_EQ(s.name, "my-cut");
  EXPECT_EQ(s.weight("attention.qkv"), Placement{Shard{0}});
  EXPECT_EQ(s.weight("attention.out"), Placement{Shard{1}});
  EXPECT_EQ(s.weight("mlp.up"), Placement{Replicate{}});
  EXPECT_EQ(s.block, Placement{Shard{0}});
  EXPECT_EQ(parse_strategy("{}", "given").name, "given");
}

TEST(ParseStrategy, RefusesInOneLineThatNamesTheFile) {
  for (char const* text :
       {"", "- a", "weights: [", "colour: red", "weights: {nothing: {tp: shard(0)}}", "weights: {norm: {tp: shard(0)}}",
        "weights: {mlp.up: {dp: shard(0)}}", "weights: {mlp.up: {tp: shard(2)}}", "weights: {mlp.up: {tp: partial}}",
        "weights: {mlp.up: {tp: round}}", "weights: {mlp.up: shard(0)}", "weights: 3",
        "activations: {block: {tp: shard(1)}}", "activations: {other: {tp: replicate}}", "activations: 3",
        "name: {a: b}", "? [a]\n: b"}) {
    try {
      parse_strategy(text, "cut.yaml");
      ADD_FAILURE() << text << " was read";
    } catch (InputError const& e) {
      std::string const message = e.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_FALSE(message.empty());
    }
  }
  EXPECT_THROW(read_strategy("/nowhere/cut.yaml"), InputError);
}

}  // namespace
}  // namespace shardbench
