#include "harness/config/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/model_schemas.hpp"
#include "harness/config/shipped_files.hpp"
#include "harness/config/text_file.hpp"
#include "harness/config/yolo.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Refuses sizes whose products leave the range in which counts are exact.
void check_magnitude(ModelConfig const& model, std::string const& file) {
  auto const number = [](std::int64_t n) { return static_cast<double>(n); };
  double widths = number(model.ffn_hidden) + 2 * number(model.query_width());
  if (model.moe)
    widths += number(model.moe->experts + 1) * number(model.moe->ffn_hidden + model.moe->shared_ffn_hidden + 1);
  if (model.mla) widths += number(model.mla->q_lora_rank + model.mla->kv_lora_rank);
  double const blocks = 4.0 * number(model.layers + model.mtp_layers) * number(model.hidden) * widths;
  double const tables = 2.0 * number(model.hidden) * number(model.vocab + model.max_positions + 1);
  if (blocks + tables > 1e15)
    throw InputError(
        fmt::format("{}: the sizes make about {:.1e} parameters, at most 1e15 are handled", file, blocks + tables));
}

bool is_size_table(JsonFields const& fields) {
  for (auto const& [key, value] : fields.value().members)
    if (value.kind == JsonValue::Kind::object && value.find("num_layers") != nullptr) return true;
  return false;
}

ModelConfig read_size_table(JsonFields const& fields, std::string_view size) {
  std::vector<std::string> names;
  for (auto const& [key, value] : fields.value().members)
    if (value.kind == JsonValue::Kind::object) names.push_back(printable(key));
  if (names.size() > 20) names.resize(20);
  std::string const sizes = fmt::format("{}", fmt::join(names, ", "));
  if (size.empty())
    throw InputError(fmt::format("{}: a table of sizes; name one as FILE:SIZE ({})", fields.file(), sizes));
  std::optional<JsonFields> const entry = fields.object(size);
  if (!entry) throw InputError(fmt::format("{}: size {} is not one of {}", fields.file(), in_quotes(size), sizes));
  ModelConfig model = read_megatron(*entry);
  note_unread(*entry, model);
  return model;
}

/// The heads of a vision tower under either of its names; absent stays out (case C05).
std::int64_t vision_tower_heads(JsonFields const& fields) {
  std::optional<JsonFields> const tower = fields.object("vision_config");
  return tower ? tower->count_or(tower->any_of({"num_heads", "num_attention_heads"}), 0, max_heads) : 0;
}

/// Families under another name: the same class of the library, or the same arithmetic.
std::string known_type(std::string const& type) { return type == "kimi_k2" ? "deepseek_v3" : type; }

/// Python writes infinities and NaN as words, which JSON has not: here a key without a value, as null is.
std::string without_infinities(std::string_view json) {
  std::string text(json);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    for (auto const& [word, value] : {std::pair<std::string_view, std::string_view>{"-Infinity", "null     "},
                                      {"Infinity", "null    "},
                                      {"NaN", "0  "}})
      if (text.compare(i, word.size(), word) == 0) text.replace(i, word.size(), value);
  }
  return text;
}

ModelConfig read_type(JsonFields const& fields, std::string const& type, JsonFields const& outer) {
  if (type.empty() && fields.has("num_layers")) return read_megatron(fields);
  if (type == "gpt2" || type == "gpt_bigcode") return read_gpt2(fields, type == "gpt_bigcode");
  if (type == "gpt_neox") return read_gpt_neox(fields);
  if (type == "falcon") return read_falcon(fields);
  if (type == "vit") return read_vit(fields);
  if (type == "yolo26") return read_yolo(fields);
  if (is_llama_like(type)) {
    ModelConfig model = read_llama_like(fields, type, outer);
    model.vision_heads = vision_tower_heads(outer);
    note_towers(outer, model);
    return model;
  }
  std::string const known =
      fmt::format("gpt2, gpt_bigcode, gpt_neox, falcon, vit, yolo26, {}", fmt::join(llama_like_types(), ", "));
  fields.fail("model_type",
              type.empty() ? "missing (one of " + known + ")" : in_quotes(type) + " is not one of " + known);
}

/// `architectures` names the class, and with it what stands behind the blocks.
void read_head(JsonFields const& outer, ModelConfig& model) {
  std::vector<std::string> const names = outer.texts("architectures");
  if (names.size() != 1 || model.takes_images()) return;
  std::string_view const name = names.front();
  model.headless = name.ends_with("Model") && !name.ends_with("LMHeadModel");
  if (!name.ends_with("ForSequenceClassification")) return;
  JsonValue const* const labels = outer.value().find("id2label");
  std::int64_t const usual = labels == nullptr ? 2 : static_cast<std::int64_t>(labels->members.size());
  model.labels = outer.size_or("num_labels", std::max<std::int64_t>(usual, 1), max_heads);
}

ModelConfig read_language(JsonFields const& outer) {
  std::optional<JsonFields> const nested = outer.object("text_config");
  // Some files keep the language sizes at the top although parts are nested: the place of hidden_size decides.
  JsonFields const& fields = nested && !outer.has("hidden_size") && !outer.has("n_embd") ? *nested : outer;
  std::string type = fields.text_or("model_type", "");
  if (type.empty()) type = outer.text_or("model_type", "");
  type = known_type(type);
  ModelConfig model = read_type(fields, type, outer);
  model.type = type;
  read_head(outer, model);
  note_unread(fields, model);
  return model;
}

ModelConfig parse_sized(std::string_view json, std::string_view name, std::string_view size) {
  bool const words = json.find("Infinity") != json.npos || json.find("NaN") != json.npos;
  JsonValue const value = parse_json(words ? without_infinities(json) : std::string(json), name);
  JsonFields const fields(value, std::string(name));
  ModelConfig model = is_size_table(fields)      ? read_size_table(fields, size)
                      : fields.has("vision_cfg") ? read_open_clip(fields)
                                                 : read_language(fields);
  model.name = name;
  check_magnitude(model, fields.file());
  if (model.yolo) model.layers = static_cast<std::int64_t>(yolo_blocks(*model.yolo).size());
  return model;
}

}  // namespace

std::int64_t ModelConfig::outputs() const {
  if (!vision) return vocab;
  if (vision->classes > 0) return vision->classes;
  return vision->projection > 0 ? vision->projection : hidden;
}

std::int64_t ModelConfig::vision_tokens() const {
  if (!vision) return 0;
  std::int64_t const side = vision->image_size / vision->patch_size;
  return side * side + (vision->class_token ? 1 : 0);
}

ModelConfig parse_model_config(std::string_view json, std::string_view name) {
  // "sizes.json:22B" selects an entry of a table of sizes.
  std::size_t const colon = name.rfind(".json:");
  if (colon == name.npos) return parse_sized(json, name, "");
  ModelConfig model = parse_sized(json, name.substr(0, colon + 5), name.substr(colon + 6));
  model.name = name;
  return model;
}

ModelConfig read_model_config(std::filesystem::path const& path) {
  std::string const name = path.string();
  std::size_t const colon = name.rfind(".json:");
  std::string const file = colon == name.npos ? name : name.substr(0, colon + 5);
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw InputError(fmt::format("{}: is a directory", file));
  std::optional<std::string> const text = text_of_file(file, max_json_bytes);
  if (!text) throw InputError(fmt::format("{}: cannot be read", file));
  return parse_model_config(*text, name);
}

ModelConfig load_model(std::string_view name_or_path) {
  for (ShippedFile const& preset : shipped_models())
    if (preset.name == name_or_path) return parse_model_config(preset.text, preset.name);
  bool const is_path =
      name_or_path.find_first_of("/.") != name_or_path.npos && name_or_path.find('\0') == name_or_path.npos;
  std::error_code error;
  if (is_path && (name_or_path.find(".json") != name_or_path.npos || std::filesystem::exists(name_or_path, error)))
    return read_model_config(name_or_path);
  std::vector<std::string> const names = preset_names();
  std::string const near = nearest_name(name_or_path, names);
  throw InputError(fmt::format("--model: {} is neither a preset nor a readable config.json{}; presets: {}",
                               in_quotes(name_or_path), near.empty() ? "" : ", did you mean " + near + "?",
                               fmt::join(names, ", ")));
}

std::vector<std::string> preset_names() { return names_of(shipped_models()); }

}  // namespace shardbench
