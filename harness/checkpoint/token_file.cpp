#include "harness/checkpoint/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "harness/config/field_text.hpp"
#include "harness/config/json_value.hpp"
#include "harness/config/text_file.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t most_bytes = std::size_t{256} << 20;

/// Collects rows and checks each id and length.
class Rows {
 public:
  Rows(std::string const& name, std::int64_t vocab) : name_(name), vocab_(vocab) {}

  void add(std::int64_t id) {
    if (id < 0 || id >= vocab_)
      throw InputError(fmt::format("{}: sample {}, position {}: {} is no token id (allowed: 0 to {})", name_,
                                   table_.samples, table_.ids.size() - start_, id, vocab_ - 1));
    table_.ids.push_back(static_cast<std::int32_t>(id));
  }
  void end_row() {
    auto const length = static_cast<std::int64_t>(table_.ids.size() - start_);
    if (length == 0) throw InputError(fmt::format("{}: sample {} is empty", name_, table_.samples));
    if (table_.samples > 0 && length != table_.length)
      throw InputError(fmt::format("{}: sample {} has {} tokens, the ones before have {}; all have one length", name_,
                                   table_.samples, length, table_.length));
    table_.length = length;
    start_ = table_.ids.size();
    ++table_.samples;
  }
  TokenTable finish() && {
    if (table_.samples == 0) throw InputError(fmt::format("{}: no token ids", name_));
    return std::move(table_);
  }

 private:
  std::string const& name_;
  std::int64_t vocab_;
  TokenTable table_;
  std::size_t start_ = 0;
};

void read_json(std::string_view contents, std::string const& name, Rows& rows) {
  JsonValue const root = parse_json(contents, name);
  if (root.kind != JsonValue::Kind::list) throw InputError(fmt::format("{}: no list of lists of token ids", name));
  for (JsonValue const& row : root.items) {
    if (row.kind != JsonValue::Kind::list) throw InputError(fmt::format("{}: no list of lists of token ids", name));
    for (JsonValue const& id : row.items) {
      if (id.kind != JsonValue::Kind::integer) throw InputError(fmt::format("{}: a token id is no integer", name));
      rows.add(id.integer);
    }
    rows.end_row();
  }
}

/// The value of 'key': in the header of a .npy file, which is a Python dictionary; empty when it is not there.
std::string_view npy_value(std::string_view header, std::string_view key) {
  std::size_t const at = header.find(fmt::format("'{}':", key));
  if (at == header.npos) return {};
  std::string_view value = header.substr(at + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

/// The header's shape as two sizes.
std::optional<std::pair<std::int64_t, std::int64_t>> npy_shape(std::string_view header) {
  std::string_view value = npy_value(header, "shape");
  std::size_t const close = value.find(')');
  if (!value.starts_with('(') || close == value.npos) return {};
  std::vector<std::string> parts = split_at(value.substr(1, close - 1), ',');
  if (parts.size() != 2) return {};
  for (std::string& part : parts) part.erase(0, part.find_first_not_of(' '));
  auto const rows = whole_integer(parts[0]), cols = whole_integer(parts[1]);
  if (!rows || !cols || *rows < 0 || *cols < 0) return {};
  return std::pair(*rows, *cols);
}

/// Format 1.0 to 3.0: magic, two version bytes, the header's length (2 bytes, 4 from 2.0), the header, the data
/// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
void read_npy(std::string_view contents, std::string const& name, Rows& rows) {
  if (!contents.starts_with("\x93NUMPY") || contents.size() < 12)
    throw InputError(fmt::format("{}: no .npy file", name));
  std::size_t const length_bytes = contents[6] == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, contents.data() + 8, length_bytes);
  std::size_t const begin = 8 + length_bytes;
  if (length > contents.size() - begin) throw InputError(fmt::format("{}: truncated", name));
  std::string_view const header = contents.substr(begin, length), data = contents.substr(begin + length);
  std::string_view const type = npy_value(header, "descr");
  std::size_t const size = type.starts_with("'<i4'") ? 4 : type.starts_with("'<i8'") ? 8 : 0;
  auto const shape = npy_shape(header);
  if (size == 0 || !shape || !npy_value(header, "fortran_order").starts_with("False"))
    throw InputError(fmt::format("{}: no array of two dims of int32 or int64 in C order", name));
  auto const [count, width] = *shape;
  double const wanted = static_cast<double>(count) * static_cast<double>(width) * static_cast<double>(size);
  if (wanted != static_cast<double>(data.size()))
    throw InputError(fmt::format("{}: shape ({}, {}) takes {:.0f} bytes of data, {} are there", name, count, width,
                                 wanted, data.size()));
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      char const* const at = data.data() + static_cast<std::size_t>(r * width + c) * size;
      std::int64_t id = 0;
      std::int32_t narrow = 0;
      if (size == 8)
        std::memcpy(&id, at, size);
      else
        std::memcpy(&narrow, at, size), id = narrow;
      rows.add(id);
    }
    rows.end_row();
  }
}

void read_text(std::string_view contents, std::string const& name, Rows& rows) {
  for (std::string const& line : split_at(contents, '\n')) {
    if (line.find_first_not_of(" \t\r,") == line.npos) continue;
    std::string spaced = line;
    for (char& c : spaced)
      if (c == ',' || c == '\t' || c == '\r') c = ' ';
    for (std::string const& word : split_at(spaced, ' ')) {
      if (word.empty()) continue;
      auto const id = whole_integer(word);
      if (!id) throw InputError(fmt::format("{}: {} is no token id", name, in_quotes(word)));
      rows.add(*id);
    }
    rows.end_row();
  }
}

}  // namespace

TokenTable parse_token_table(std::string_view contents, std::string const& name, std::int64_t vocab) {
  if (contents.size() > most_bytes)
    throw InputError(fmt::format("{}: more than {} bytes of token ids", name, most_bytes));
  Rows rows(name, vocab);
  auto const read = name.ends_with(".json") ? read_json : name.ends_with(".npy") ? read_npy : read_text;
  read(contents, name, rows);
  return std::move(rows).finish();
}

TokenTable read_token_table(std::string const& path, std::int64_t vocab) {
  std::error_code error;
  std::uintmax_t const bytes = std::filesystem::file_size(path, error);
  std::size_t const limit = error ? 0 : static_cast<std::size_t>(std::min<std::uintmax_t>(bytes, most_bytes));
  std::optional<std::string> const contents = error ? std::nullopt : text_of_file(path, limit);
  if (!contents) throw InputError(fmt::format("--token-ids: {}: cannot be read", path));
  return parse_token_table(*contents, "--token-ids: " + path, vocab);
}

}  // namespace shardbench
