// What a config says and the step does not do: nothing of it goes unsaid.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/config/field_text.hpp"
#include "harness/config/model_schemas.hpp"

namespace shardbench {
namespace {

/// Keys without a part in the arithmetic of a step: names, tokens, how weights are stored or first drawn, what a
/// library does around the model. Rope pairs that lie interleaved are a permutation of a weight's rows.
constexpr std::array neutral{
    // what it is called
    "architectures", "auto_map", "model_type", "name", "description", "transformers_version", "tokenizer_class",
    // how weights are stored and first drawn
    "torch_dtype", "dtype", "initializer_range", "initializer_factor", "layer_norm_init", "pretraining_tp",
    // what a token means
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "bos_token", "eos_token", "image_token_id",
    "image_token_index", "video_token_id", "boi_token_index", "eoi_token_index", "vision_start_token_id",
    "vision_end_token_id", "vision_token_id", "mm_tokens_per_image",
    // what the library does around the model
    "use_cache", "cache_implementation", "attn_implementation", "reorder_and_upcast_attn", "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32", "output_router_logits", "id2label", "label2id", "task_specific_params",
    "problem_type", "summary_type", "summary_activation", "summary_use_proj", "summary_proj_to_logits",
    "summary_first_dropout", "encoder_stride", "n_ctx",
    // parts with configs of their own
    "text_config", "vision_config", "audio_config", "text_cfg"};

bool asks_for_nothing(JsonValue const& value) {
  return !value.boolean && value.integer == 0 && value.real == 0 && value.text.empty() && value.items.empty() &&
         value.members.empty();
}

void add_unread(JsonFields const& fields, std::string const& prefix, std::vector<std::string>& names) {
  for (auto const& [key, value] : fields.value().members) {
    bool const known = key.starts_with('_') || std::ranges::find(neutral, key) != neutral.end();
    if (known || asks_for_nothing(value)) continue;
    if (!fields.was_read(key))
      names.push_back(prefix + printable(key));
    else if (value.kind == JsonValue::Kind::object)
      add_unread(*fields.object(key), prefix + printable(key) + '.', names);
  }
}

}  // namespace

void note_unread(JsonFields const& fields, ModelConfig& model) {
  std::vector<std::string> names;
  add_unread(fields, "", names);
  constexpr std::size_t shown = 12;
  std::size_t const more = names.size() - std::min(names.size(), shown);
  names.resize(names.size() - more);
  if (names.empty()) return;
  model.notes.push_back({fmt::format("the config says {}{}, which no step here has", fmt::join(names, ", "),
                                     more > 0 ? fmt::format(" and {} more", more) : "")});
}

void note_towers(JsonFields const& outer, ModelConfig& model) {
  for (std::string_view const tower : {"vision_config", "audio_config"})
    if (outer.has(tower))
      model.notes.push_back({fmt::format("the tower of {} is left out, the step is the language model's", tower)});
}

}  // namespace shardbench
