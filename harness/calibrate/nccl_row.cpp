#include "harness/calibrate/nccl_row.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "harness/calibrate/text_input.hpp"

namespace shardbench {
namespace {

struct TypeInfo {
  std::string_view name;
  std::int64_t bytes;
  double error_limit;
};

constexpr TypeInfo types[] = {
    {"float", 4, 1e-5},   {"double", 8, 1e-12},    {"half", 2, 1e-2},      {"bfloat16", 2, 1e-2}, {"int8", 1, 0},
    {"uint8", 1, 0},      {"int32", 4, 0},         {"uint32", 4, 0},       {"int64", 8, 0},       {"uint64", 8, 0},
    {"char", 1, 0},       {"int", 4, 0},           {"f8e4m3", 1, 0.1},     {"f8e5m2", 1, 0.1},    {"fp8_e4m3", 1, 0.1},
    {"fp8_e5m2", 1, 0.1}, {"float8_e4m3", 1, 0.1}, {"float8_e5m2", 1, 0.1}};

TypeInfo info_of(std::string_view type) {
  auto const found = std::ranges::find(types, type, &TypeInfo::name);
  return found == std::end(types) ? TypeInfo{type, 0, 1e-2} : *found;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr std::size_t most_tag = 256;

/// Whether brackets hold a rank: "1,0", "3" or Open MPI 5's "prterun-host-123@1,0".
bool names_rank(std::string_view inside) {
  std::size_t const job = inside.find('@');
  if (job != inside.npos && inside.find_first_of(" \t") == inside.npos) inside.remove_prefix(job + 1);
  return !inside.empty() && std::ranges::all_of(inside, [](char c) { return is_digit(c) || c == ','; });
}

/// Length of a launcher's tag at `text`: "[1,0]<stdout>:", "[prterun-host-123@1,0]<stdout>:" or "[3]"; 0 when there is
/// none.
std::size_t tag_length(std::string_view text) {
  if (text.empty() || text.front() != '[') return 0;
  std::size_t i = text.substr(0, most_tag).find(']');
  if (i == text.npos || !names_rank(text.substr(1, i - 1))) return 0;
  ++i;
  if (text.substr(i).starts_with("<std")) {
    std::size_t const close = text.substr(0, i + 12).find('>', i);
    if (close == text.npos) return 0;
    i = close + 1;
  }
  if (i < text.size() && text[i] == ':') ++i;
  return i;
}

/// Length of what stands before every line of a labelled output: the task of srun -l ("0: ") or the time of kubectl
/// logs
/// --timestamps ("2026-07-09T16:03:21.123456789Z "); 0 when there is none.
std::size_t label_length(std::string_view text) {
  std::size_t const start = std::min(text.find_first_not_of(' '), text.size());
  std::size_t const end = std::min(text.find(' ', start), text.size());
  std::string_view const word = text.substr(start, end - start);
  bool const task =
      word.size() > 1 && word.ends_with(':') && std::ranges::all_of(word.substr(0, word.size() - 1), is_digit);
  bool const time =
      word.size() >= 20 && word[4] == '-' && word[10] == 'T' && std::ranges::all_of(word.substr(0, 4), is_digit);
  return task || time ? end : 0;
}

bool is_absent(std::string_view text) { return text == "N/A" || text == "n/a" || text == "nan" || text == "-nan"; }
bool is_cell(std::string_view text) { return is_absent(text) || log_number(text).has_value(); }

using Cell = RowLayout::Cell;

Cell cell_of(std::string_view name) {
  if (name == "time" || name == "cputime") return Cell::time;
  if (name == "algbw") return Cell::algbw;
  if (name == "busbw") return Cell::busbw;
  if (name == "#wrong" || name == "wrong") return Cell::wrong;
  return name == "error" ? Cell::error : Cell::other;
}

/// The cells of one half as a timing; nothing unless time and both bandwidths are numbers.
std::optional<NcclTiming> timing_of(std::span<Cell const> kinds, std::span<LogWord const> cells,
                                    std::string_view type) {
  NcclTiming timing;
  int found = 0;
  for (std::size_t i = 0; i < std::min(kinds.size(), cells.size()); ++i) {
    std::string_view const text = cells[i].text;
    std::optional<double> const value = log_number(text);
    Cell kind = kinds[i];
    if (kind == Cell::wrong && text.find_first_of("e.") != text.npos && !is_absent(text)) kind = Cell::error;
    if (kind == Cell::other) continue;
    if (kind == Cell::wrong || kind == Cell::error) {
      if (is_absent(text) || !value) continue;
      timing.check =
          kind == Cell::error ? check_of_error(*value, type) : (*value > 0 ? NcclCheck::wrong : NcclCheck::right);
      continue;
    }
    if (!value || *value < 0) return std::nullopt;
    ++found;
    double const rounding = rounding_of(text);
    if (kind == Cell::time) timing.time_us = *value, timing.time_rounding_us = rounding;
    if (kind == Cell::algbw) timing.algbw_gb_per_s = *value, timing.algbw_rounding = rounding;
    if (kind == Cell::busbw) timing.busbw_gb_per_s = *value, timing.busbw_rounding = rounding;
  }
  if (found != 3 || timing.time_us <= 0) return std::nullopt;
  return timing;
}

/// Without a header: one or two halves of time, algbw, busbw and the check.
std::vector<Cell> usual_cells(std::size_t count) {
  if (count < 8) return {Cell::time, Cell::algbw, Cell::busbw, Cell::wrong};
  return {Cell::time, Cell::algbw, Cell::busbw, Cell::wrong, Cell::time, Cell::algbw, Cell::busbw, Cell::wrong};
}

/// Whether cells[at], cells[at + 1] can be a time and the rate that goes with it.
bool looks_timed(NcclRow const& row, std::vector<LogWord> const& cells, std::size_t at) {
  if (at + 2 >= cells.size()) return false;
  auto const time = log_number(cells[at].text), rate = log_number(cells[at + 1].text);
  if (!time || !rate || *time <= 0) return false;
  double const expected = static_cast<double>(row.size_bytes) / *time / 1e3;
  return std::abs(*rate - expected) <= 0.006 + 0.6 * expected;
}

bool takes_root(NcclRow const& row, std::vector<LogWord> const& cells, RowLayout const& layout) {
  auto const first = cells.empty() ? std::nullopt : parsed<std::int64_t>(cells.front().text);
  if (!first) return false;
  if (*first < 0) return true;
  if (layout.known && !layout.root) return false;
  if (layout.known && cells.size() > layout.cells.size()) return true;
  return looks_timed(row, cells, 1) || (layout.known && !looks_timed(row, cells, 0));
}

/// Where the second half begins among the kinds, which begin with the first; their number when there is one half.
std::size_t second_half(std::span<Cell const> kinds) {
  return std::find(std::min(kinds.begin() + 1, kinds.end()), kinds.end(), Cell::time) - kinds.begin();
}

/// Whether a row of a single half under a header of two stands where the second one does.
bool is_second_half(RowLayout const& layout, std::size_t second_kind, LogWord const& time) {
  if (layout.ends.size() <= second_kind) return false;
  std::size_t const first_end = layout.ends.front(), second_end = layout.ends[second_kind];
  auto const distance = [&](std::size_t end) { return end > time.end ? end - time.end : time.end - end; };
  return distance(second_end) < distance(first_end);
}

}  // namespace

std::int64_t nccl_type_bytes(std::string_view type) { return info_of(type).bytes; }

NcclCheck check_of_error(double error, std::string_view type) {
  return error > info_of(type).error_limit ? NcclCheck::wrong : NcclCheck::right;
}

std::string clean_line(std::string_view line) {
  std::string clean;
  clean.reserve(line.size());
  for (std::size_t i = label_length(line); i < line.size();) {
    std::size_t const skip = std::max(tag_length(line.substr(i)), escape_length(line.substr(i)));
    if (skip > 0) {
      // A tag between two words keeps them apart.
      if (!clean.empty() && clean.back() != ' ') clean += ' ';
      i += skip;
      continue;
    }
    auto const byte = static_cast<unsigned char>(line[i++]);
    clean += byte < 0x20 || byte == 0x7f ? ' ' : static_cast<char>(byte);
  }
  return clean;
}

std::vector<LogWord> log_words(std::string_view line) {
  std::vector<LogWord> words;
  for (std::size_t start = line.find_first_not_of(' '); start != line.npos;
       start = line.find_first_not_of(' ', start)) {
    std::size_t const end = std::min(line.find(' ', start), line.size());
    words.push_back({line.substr(start, end - start), end});
    start = end;
  }
  return words;
}

std::optional<double> log_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  auto const value = parsed<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

double rounding_of(std::string_view number) {
  std::size_t const e = std::min(number.find_first_of("eE"), number.size());
  std::size_t const point = number.substr(0, e).find('.');
  double const decimals = point == number.npos ? 0 : static_cast<double>(e - point - 1);
  double const exponent = e < number.size() ? log_number(number.substr(e + 1)).value_or(0) : 0;
  return 0.5 * std::pow(10.0, exponent - decimals);
}

bool read_header(std::vector<LogWord> const& words, RowLayout& layout) {
  auto const size = std::ranges::find(words, std::string_view("size"), &LogWord::text);
  auto const type = std::ranges::find(words, std::string_view("type"), &LogWord::text);
  if (size == words.end() || type == words.end() || words.end() - size < 6 || (size + 1)->text != "count") return false;
  RowLayout found;
  found.known = true;
  for (auto word = type + 1; word != words.end(); ++word) {
    if (word->text == "redop") {
      found.redop = true;
    } else if (word->text == "root") {
      found.root = true;
    } else {
      found.cells.push_back(cell_of(word->text));
      found.ends.push_back(word->end);
    }
  }
  if (found.cells.empty() || found.cells.front() != RowLayout::Cell::time) return false;
  layout = std::move(found);
  return true;
}

std::size_t find_row(std::vector<LogWord> const& words, std::size_t from) {
  for (std::size_t i = from; i + 2 < words.size(); ++i)
    if (nccl_type_bytes(words[i + 2].text) > 0) {
      auto const size = parsed<std::int64_t>(words[i].text), count = parsed<std::int64_t>(words[i + 1].text);
      if (size && count && *size >= 0 && *count >= 0) return i;
    }
  return words.size();
}

bool read_row(std::vector<LogWord> const& words, std::size_t begin, std::size_t end, RowLayout const& layout,
              NcclRow& row) {
  row.size_bytes = *parsed<std::int64_t>(words[begin].text);
  row.count = *parsed<std::int64_t>(words[begin + 1].text);
  row.type = words[begin + 2].text;
  std::size_t i = begin + 3;
  if (i < end && !is_cell(words[i].text)) row.redop = words[i++].text;
  std::vector<LogWord> cells;
  for (; i < end && is_cell(words[i].text); ++i) cells.push_back(words[i]);
  if (takes_root(row, cells, layout)) {
    row.root = parsed<std::int64_t>(cells.front().text);
    cells.erase(cells.begin());
  }
  std::vector<Cell> const kinds = layout.known ? layout.cells : usual_cells(cells.size());
  std::size_t const width = second_half(kinds);
  auto const [first_kinds, second_kinds] = std::pair(std::span(kinds).first(width), std::span(kinds).subspan(width));
  bool const two = !second_kinds.empty();
  if (two && !cells.empty() && cells.size() < 2 * width - 1 && cells.size() >= width - 1) {
    std::optional<NcclTiming> const only = timing_of(first_kinds, cells, row.type);
    (is_second_half(layout, width, cells.front()) ? row.in_place : row.out_of_place) = only;
    // One half alone is whole only where it ends as a half does.
    return only.has_value() && cells.size() == width;
  }
  if (cells.size() >= std::min<std::size_t>(width, 3)) row.out_of_place = timing_of(first_kinds, cells, row.type);
  if (two && std::min(second_kinds.size() + width, cells.size()) >= width + 3)
    row.in_place = timing_of(second_kinds, std::span(cells).subspan(width), row.type);
  return row.out_of_place && (!two || row.in_place);
}

}  // namespace shardbench
