#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/config/field_text.hpp"
#include "harness/report/csv.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

// A cursor over the text; knows the line for messages.
class Reader {
 public:
  Reader(std::string_view text, std::string const& name) : text_(text), name_(name) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  bool at_end() const { return position_ == text_.size(); }
  std::size_t line() const { return line_; }

  CsvRecord next_record() {
    CsvRecord record;
    do record.push_back(next_cell());
    while (take(','));
    if (!at_end() && !take_line_end()) fail(line_, "text after a closing quote");
    return record;
  }

  [[noreturn]] void fail(std::size_t line, std::string const& problem) const {
    throw InputError(fmt::format("{}:{}: {}", name_, line, problem));
  }

 private:
  bool take(char c) {
    if (at_end() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  bool take_line_end() {
    if (text_.substr(position_).starts_with("\r\n")) ++position_;
    if (!take('\n')) return false;
    ++line_;
    return true;
  }

  std::string next_cell() { return take('"') ? quoted_cell() : plain_cell(); }

  std::string plain_cell() {
    std::size_t const start = position_;
    while (!at_end() && text_[position_] != ',' && text_[position_] != '\n') {
      if (text_[position_] == '\0') fail(line_, "a NUL byte, which no CSV file holds");
      if (text_[position_] == '"') fail(line_, "a quote inside a cell that is not quoted");
      ++position_;
    }
    std::size_t end = position_;
    bool const carriage_return = !at_end() && text_[position_] == '\n' && end > start && text_[end - 1] == '\r';
    return std::string(text_.substr(start, end - start - (carriage_return ? 1 : 0)));
  }

  std::string quoted_cell() {
    std::size_t const opened = line_;
    std::string cell;
    while (!at_end()) {
      char const c = text_[position_++];
      if (c == '"' && !take('"')) return cell;
      if (c == '\0') fail(line_, "a NUL byte, which no CSV file holds");
      if (c == '\n') ++line_;
      cell += c;
    }
    fail(opened, "a quote is opened and never closed");
  }

  std::string_view text_;
  std::string const& name_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
};

void check_header(Reader const& reader, CsvRecord const& header) {
  std::set<std::string_view> seen;
  for (std::string const& name : header) {
    if (name.empty()) reader.fail(1, "the header has an empty column name");
    if (!seen.insert(name).second) reader.fail(1, fmt::format("the header names column {} twice", in_quotes(name)));
  }
}

}  // namespace

std::optional<std::size_t> CsvTable::find_column(std::string_view wanted) const {
  auto const found = std::find(header.begin(), header.end(), wanted);
  return found == header.end() ? std::nullopt : std::optional<std::size_t>(found - header.begin());
}

std::size_t CsvTable::column(std::string_view wanted) const {
  auto const found = find_column(wanted);
  if (!found) throw InputError(fmt::format("{}: no column '{}' in its header", name, wanted));
  return *found;
}

CsvTable parse_csv(std::string_view text, std::string name) {
  CsvTable table;
  table.name = std::move(name);
  Reader reader(text, table.name);
  if (reader.at_end()) reader.fail(1, "empty, a header line is needed");
  table.header = reader.next_record();
  check_header(reader, table.header);
  while (!reader.at_end()) {
    std::size_t const line = reader.line();
    CsvRecord record = reader.next_record();
    if (record.size() != table.header.size())
      reader.fail(line, fmt::format("{} cells, the header has {}", record.size(), table.header.size()));
    table.rows.push_back(std::move(record));
  }
  return table;
}

CsvTable read_csv(std::string const& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw InputError(fmt::format("cannot read '{}': it is a folder", path));
  if (!file) throw InputError(fmt::format("cannot read '{}'", path));
  auto const size = file.tellg();
  constexpr std::streamoff largest = std::streamoff{1} << 30;
  if (size < 0 || size > largest) throw InputError(fmt::format("'{}' is no CSV file of at most 1 GiB", path));
  std::string text(size, '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) throw InputError(fmt::format("cannot read '{}'", path));
  return parse_csv(text, path);
}

}  // namespace shardbench
