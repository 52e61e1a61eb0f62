#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/checkpoint/safetensors.hpp"

namespace shardbench {

/// Weights as Hugging Face's libraries store them: one safetensors file, or an index (*.safetensors.index.json) that
/// says which of several files holds a tensor. Files are opened when a tensor of theirs is asked for.
class Checkpoint {
 public:
  /// Throws InputError "--weights: ..." for what is neither, and for what parse_safetensors_header refuses.
  explicit Checkpoint(std::filesystem::path const& path);

  /// A tensor's elements, row by row. It may lie under a prefix that a multimodal or a bare model gives it
  /// ("language_model.", "model.language_model.", "transformer."). Throws InputError when it is missing or has another
  /// shape.
  std::vector<float> const& read(std::string const& name, std::vector<std::int64_t> const& shape);

 private:
  /// The file that holds the tensor under this very name, nullptr for none.
  SafetensorsFile* file_of(std::string const& name);

  std::string path_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> places_;  ///< of an index: tensor to file
  std::map<std::string, SafetensorsFile> files_;
  std::string last_name_;  ///< sections of one tensor are asked for one after the other
  std::vector<float> last_;
};

}  // namespace shardbench
