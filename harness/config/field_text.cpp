#include "harness/config/field_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "harness/config/experiment.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

[[noreturn]] void refuse(std::string_view flag, std::string_view text, std::string_view allowed) {
  throw InputError(fmt::format("--{}: {} is not {}", flag, in_quotes(text), allowed));
}

/// An integer without a sign.
std::optional<std::int64_t> whole_number(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : whole_integer(text);
}

std::string with_article(std::string const& words) { return (words.front() == 'i' ? "an " : "a ") + words; }

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (char const c : text.substr(0, 60)) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  if (text.size() > 60) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) { return fmt::format("'{}'", printable(text)); }

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    std::size_t const end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string integer_range_text(std::int64_t min, std::int64_t max) {
  return max >= integer_limit ? fmt::format("integer >= {}", min) : fmt::format("integer from {} to {}", min, max);
}

std::string number_range_text(double min, double max) {
  return max >= number_limit ? fmt::format("number >= {}", min) : fmt::format("number from {} to {}", min, max);
}

std::optional<std::int64_t> whole_integer(std::string_view text) {
  std::int64_t value = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

std::int64_t parse_integer(std::string_view flag, std::string_view text, std::int64_t min, std::int64_t max) {
  std::optional<std::int64_t> const value = whole_number(text);
  if (value && max >= integer_limit && *value > max)
    throw InputError(fmt::format("--{}: {} is above the limit {}", flag, text, max));
  if (!value || *value < min || *value > max) refuse(flag, text, with_article(integer_range_text(min, max)));
  return *value;
}

double parse_number(std::string_view flag, std::string_view text, double min, double max) {
  double value = 0;
  char const* const end = text.data() + text.size();
  bool const digits = !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
  auto const [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  bool const whole = digits && error == std::errc{} && stop == end;
  if (!whole || !(value >= min && value <= max)) refuse(flag, text, with_article(number_range_text(min, max)));
  return value;
}

bool parse_switch(std::string_view flag, std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  refuse(flag, text, "true or false");
}

std::string number_text(double value) {
  std::array<char, 400> buffer{};
  auto const [end, error] = std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::fixed);
  VALIDATE(error == std::errc{}, "a number has no text");
  return {buffer.begin(), end};
}

std::int64_t parse_bytes(std::string_view flag, std::string_view text) {
  constexpr std::string_view allowed = "a size: an integer >= 0 with an optional K, M or G (2^10, 2^20, 2^30)";
  int shift = 0;
  std::string_view digits = text;
  if (!text.empty()) {
    std::size_t const power = std::string_view("KMGkmg").find(text.back());
    if (power != std::string_view::npos) shift = 10 * (1 + static_cast<int>(power % 3));
    if (shift != 0) digits.remove_suffix(1);
  }
  std::optional<std::int64_t> const value = whole_number(digits);
  if (!value || *value > (std::int64_t{1} << 50 >> shift)) refuse(flag, text, allowed);
  return *value << shift;
}

std::string nearest_name(std::string_view text, std::vector<std::string> const& names) {
  if (text.size() > 100) return "";
  std::string best;
  // A third of the letters may differ, else the suggestion would be noise.
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  std::vector<std::size_t> row;
  for (std::string const& name : names) {
    row.resize(name.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 1; j < row.size(); ++j) {
        std::size_t const substitute = diagonal + (text[i] == name[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = name;
    }
  }
  return best;
}

}  // namespace shardbench
