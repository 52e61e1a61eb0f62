#pragma once
// Configs of models: the files of tests/data, and small ones to change a key of.
#include <nlohmann/json.hpp>

#include "harness/config/model_config.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench::test {

inline std::string const data = SHARDBENCH_SOURCE_DIR "/tests/data/model_configs/";

inline std::int64_t total(std::string const& model) { return count_parameters(load_model(model)).total; }
inline ModelConfig file(std::string const& name) { return read_model_config(data + name); }

/// What a config is refused with, empty when it is not.
inline std::string refused(std::string const& json) {
  return refusal([&] { parse_model_config(json, "config.json"); });
}

/// A small Llama, with these keys more or other, without that one.
inline std::string llama(std::string const& more = "", std::string const& without = "") {
  nlohmann::json config = {{"model_type", "llama"},  {"hidden_size", 64}, {"intermediate_size", 128},
                           {"num_hidden_layers", 2}, {"vocab_size", 100}, {"num_attention_heads", 4}};
  if (!more.empty()) config.update(nlohmann::json::parse(more));
  config.erase(without);
  return config.dump();
}

}  // namespace shardbench::test
