#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/checkpoint/stored_part.hpp"

namespace shardbench {

/// "layers.3.attention.qkv.k.bias" taken apart: layer 3 (-1 outside the blocks), part "attention.qkv.k", a bias.
struct SectionKey {
  std::int64_t layer = -1;
  std::string part;
  bool bias = false;

  explicit SectionKey(std::string_view key) {
    if (number_behind(key, "layers.", layer)) key.remove_prefix(1);
    for (std::string_view const suffix : {".weight", ".bias"})
      if (key.ends_with(suffix)) {
        bias = suffix == ".bias";
        key.remove_suffix(suffix.size());
        break;
      }
    part = key;
  }
  /// Takes `prefix` and the number behind it off the text; false, and nothing taken, where it begins otherwise.
  static bool number_behind(std::string_view& text, std::string_view prefix, std::int64_t& number) {
    if (!text.starts_with(prefix)) return false;
    std::string_view const rest = text.substr(prefix.size());
    auto const [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc()) return false;
    text = rest.substr(static_cast<std::size_t>(end - rest.data()));
    return true;
  }
  /// "weight" or "bias"
  std::string_view suffix() const { return bias ? "bias" : "weight"; }
};

/// One scheme of names each; nothing where it has none for the key.
std::optional<StoredPart> stored_llama(ModelConfig const& model, SectionKey const& key);
std::optional<StoredPart> stored_gpt(ModelConfig const& model, SectionKey const& key);
std::optional<StoredPart> stored_vision(ModelConfig const& model, SectionKey const& key);
std::optional<StoredPart> stored_yolo(ModelConfig const& model, SectionKey const& key);

}  // namespace shardbench
