#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardbench {

/// What the cells of a column hold: words, numbers, or true and false.
enum class CellKind : std::uint8_t { text, number, flag };

}  // namespace shardbench

namespace shardbench::cell_text {

/// The shortest digits that read back as the same number; whole numbers below 2^53 without point or exponent; "nan",
/// "inf".
std::string text(double value);
inline std::string text(std::int64_t value) { return std::to_string(value); }
inline std::string text(int value) { return std::to_string(value); }
inline std::string text(bool value) { return value ? "true" : "false"; }
std::string text(char const*) = delete;  // would become a bool
inline std::string text(std::string_view value) { return std::string(value); }
inline std::string text(std::string const& value) { return value; }
template <class T>
std::string text(std::optional<T> const& value) {
  return value ? text(*value) : std::string();
}
/// A size that is empty when nobody knows it (0).
inline std::string known(std::int64_t value) { return value == 0 ? std::string() : text(value); }

}  // namespace shardbench::cell_text
