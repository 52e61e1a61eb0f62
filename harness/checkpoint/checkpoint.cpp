#include "harness/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/config/field_text.hpp"
#include "harness/config/json_fields.hpp"
#include "harness/config/text_file.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// The names under which a tensor of a language model may lie: its own, within a multimodal model (in either
/// generation of the library), and without the name of the head's class around it.
std::vector<std::string> names_of(std::string const& name) {
  std::vector<std::string> names{name, "language_model." + name};
  if (name.starts_with("model.")) names.push_back("model.language_model." + name.substr(6));
  for (std::string_view const prefix : {"transformer.", "gpt_neox.", "vit.", "model."})
    if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
  return names;
}

std::map<std::string, std::string> read_index(std::string const& path) {
  std::optional<std::string> const text = text_of_file(path, max_json_bytes);
  if (!text) throw InputError(fmt::format("--weights: {}: cannot be read", path));
  JsonValue const root = parse_json(*text, path);
  JsonFields const fields(root, path);
  std::optional<JsonFields> const map = fields.object("weight_map");
  if (!map)
    throw InputError(
        fmt::format("--weights: {}: weight_map: missing (an index says which file has which tensor)", path));
  std::map<std::string, std::string> places;
  for (auto const& [name, value] : map->value().members) {
    std::string const file = map->text_or(name, "");
    if (file.empty() || file.find_first_of(std::string_view("/\\\0\n\r", 5)) != file.npos || file == "..")
      throw InputError(fmt::format("--weights: {}: weight_map.{}: {} is no name of a file beside the index", path,
                                   printable(name), in_quotes(file)));
    places[name] = file;
  }
  if (places.empty()) throw InputError(fmt::format("--weights: {}: weight_map: names no tensor", path));
  return places;
}

}  // namespace

Checkpoint::Checkpoint(std::filesystem::path const& path) : path_(path.string()), folder_(path.parent_path()) {
  if (path_.ends_with(".json")) {
    places_ = read_index(path_);
    return;
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InputError(fmt::format(
        "--weights: {}: no such file (allowed: F.safetensors, or an index F.safetensors.index.json)", path_));
  files_.try_emplace("", path, "--weights: " + path_);
}

SafetensorsFile* Checkpoint::file_of(std::string const& name) {
  if (places_.empty()) {
    SafetensorsFile& only = files_.begin()->second;
    return only.find(name) == nullptr ? nullptr : &only;
  }
  auto const place = places_.find(name);
  if (place == places_.end()) return nullptr;
  auto found = files_.find(place->second);
  if (found == files_.end()) {
    std::filesystem::path const path = folder_ / place->second;
    found = files_.try_emplace(place->second, path, "--weights: " + path.string()).first;
  }
  if (found->second.find(name) == nullptr)
    throw InputError(fmt::format("--weights: {}: tensor {} is not in {}, where it should be", path_, in_quotes(name),
                                 place->second));
  return &found->second;
}

std::vector<float> const& Checkpoint::read(std::string const& name, std::vector<std::int64_t> const& shape) {
  if (name == last_name_) return last_;
  for (std::string const& candidate : names_of(name)) {
    SafetensorsFile* const file = file_of(candidate);
    if (file == nullptr) continue;
    StoredTensor const& tensor = *file->find(candidate);
    if (tensor.shape != shape)
      throw InputError(fmt::format("--weights: {}: tensor {} has shape {}, the model's is {}", path_,
                                   in_quotes(candidate), shape_text(tensor.shape), shape_text(shape)));
    last_ = file->read(tensor);
    last_name_ = name;
    return last_;
  }
  throw InputError(fmt::format("--weights: {}: tensor {} is missing", path_, in_quotes(name)));
}

}  // namespace shardbench
