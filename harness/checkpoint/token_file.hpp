#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// Token ids of samples, all of one length: row s is sample s. A training step of `seq` tokens reads seq + 1 of each,
/// the last as a target only; inference reads as many as its positions.
struct TokenTable {
  std::int64_t samples = 0, length = 0;
  std::vector<std::int32_t> ids;  ///< [samples, length]
  std::int32_t at(std::int64_t sample, std::int64_t position) const { return ids[sample * length + position]; }
};

/// Reads ids from the text of a .json (a list of lists), a .npy (two dims of int32 or int64, C order) or, under any
/// other name, plain text (a line a sample, ids separated by blanks or commas). Throws InputError naming the file, and
/// for ids outside 0 to vocab - 1 the place.
TokenTable parse_token_table(std::string_view contents, std::string const& name, std::int64_t vocab);

/// The same from a file of at most 256 MiB. Errors begin with "--token-ids: ".
TokenTable read_token_table(std::string const& path, std::int64_t vocab);

}  // namespace shardbench
