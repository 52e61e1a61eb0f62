#include "harness/config/recompute_modules.hpp"

#include <gtest/gtest.h>

#include "harness/config/experiment.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;
using test::refusal;

std::string read(std::string const& text) { return to_string(parse_recompute_modules("recompute-modules", text)); }

TEST(RecomputeModules, NamesAliasesAndSeparators) {
  EXPECT_EQ(read("none"), "");
  EXPECT_EQ(read("layernorm mla_up_proj moe_act"), "layernorm+mla_up_proj+moe_act");
  EXPECT_EQ(read("moe-act,norm,mla-up"), "layernorm+mla_up_proj+moe_act");
  EXPECT_EQ(read("attention+act"), "core_attn+activation");
  EXPECT_EQ(read("core_attn+core-attn"), "core_attn");
  for (RecomputeModule const m : enum_values<RecomputeModule>())
    EXPECT_EQ(read(std::string(to_string(m))), to_string(m));
  for (std::string const text : {"", "norm+", "moes", "layernorm;mlp", "none+mlp"})
    EXPECT_TRUE(contains(refusal([&] { read(text); }), "is no part of a layer; allowed: none, or core_attn (attention"))
        << text;
}

TEST(RecomputeModules, AModelMustHaveThem) {
  auto const refused = [](std::string const& text) {
    return refusal([&] { experiment_of_command("shardbench describe " + text); });
  };
  EXPECT_EQ(refused("--model deepseek-v3 --recompute-modules layernorm+mla_up_proj+moe_act+shared_experts"), "");
  EXPECT_EQ(refused("--model deepseek-v3 --recompute-modules mlp"), "") << "its first layers are dense";
  EXPECT_EQ(refused("--model gpt2 --recompute selective --recompute-modules layernorm+mlp+core_attn"), "");
  EXPECT_EQ(refused("--model gpt2 --recompute full --recompute-layers 2 --recompute-modules layernorm"), "");
  for (auto const& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"--model gpt2 --recompute-modules moe",
            "moe given, gpt2 has no such part; legal: core_attn, layernorm, mlp"},
           {"--model llama3.1-8b --recompute-modules mla_up_proj", "mla_up_proj given"},
           {"--model mixtral-8x7b --recompute-modules mlp", "mlp given"},
           {"--model mixtral-8x7b --recompute-modules shared_experts", "shared_experts given"},
           {"--model yolo26n --recompute-modules activation", "legal: none"},
           {"--model gpt2 --phase prefill --recompute-modules mlp", "has no backward pass"},
           {"--model gpt2 --recompute full --recompute-modules mlp", "which has all of each layer"}})
    EXPECT_TRUE(contains(refused(text), words)) << text << ": " << refused(text);
}

}  // namespace
}  // namespace shardbench
