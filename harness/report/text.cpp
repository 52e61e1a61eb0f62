#include "harness/report/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardbench {
namespace {

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 6> prefixes{"k", "M", "G", "T", "P", "E"};
  if (value < 1000) return fmt::format("{:.0f} {}", value, unit);
  std::size_t i = 0;
  for (value /= 1000; value >= 999.5 && i + 1 < prefixes.size(); ++i) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, prefixes[i], unit);
}

}  // namespace

std::string grouped(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t end = digits.size(); end > 3 && digits[end - 4] != '-'; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string bytes_text(double bytes) { return with_prefix(bytes, "B"); }

std::string flops_text(double flops) { return with_prefix(flops, "FLOP"); }

std::vector<std::string> table_lines(std::vector<std::vector<std::string>> const& rows) {
  std::vector<std::size_t> widths;
  for (auto const& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (auto const& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace shardbench
