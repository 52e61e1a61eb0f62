#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/model_config.hpp"

namespace shardbench {

/// Where a section of a weight (q of a packed projection, one expert's gate) lies in a checkpoint: its element (r, c) is
/// element rows[r] + cols[c] of the tensor `name`, counted row by row. So a packed, transposed or permuted weight of a
/// library is the same two lists of numbers.
struct StoredPart {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> rows, cols;
};

/// The place of a section, by the key under which the program knows it ("layers.3.attention.qkv.k.weight"), in the
/// checkpoint of the model's family: the names of Hugging Face's transformers, of open_clip for its towers, and the
/// program's own for detectors. Throws InputError where the family has none.
StoredPart stored_part(ModelConfig const& model, std::string_view key);

}  // namespace shardbench
