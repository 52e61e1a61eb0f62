#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// The text cut at 60 bytes, with control characters as \xNN: safe to put into a one-line message.
std::string printable(std::string_view text);

/// printable() in quotes.
std::string in_quotes(std::string_view text);

/// What stands between the separators, empty parts too: "a,,b" has three.
std::vector<std::string> split_at(std::string_view text, char separator);

/// The integer that the whole text says in decimal digits, if it does.
std::optional<std::int64_t> whole_integer(std::string_view text);

/// Decimal digits only, min to max. Throws InputError "--flag: 'text' is not an integer ...".
std::int64_t parse_integer(std::string_view flag, std::string_view text, std::int64_t min, std::int64_t max);

/// Digits with an optional point (no exponent, no sign), min to max. Throws InputError.
double parse_number(std::string_view flag, std::string_view text, double min, double max);

/// "true" or "false". Throws InputError.
bool parse_switch(std::string_view flag, std::string_view text);

/// Shortest text without exponent that parse_number reads back to the same value.
std::string number_text(double value);

/// The words for a range: "integer >= 1" when max is at least integer_limit, else "integer from 1 to 3".
std::string integer_range_text(std::int64_t min, std::int64_t max);
std::string number_range_text(double min, double max);

/// A range that ends here or above is described as open; values above its end are refused all the same.
inline constexpr std::int64_t integer_limit = std::int64_t{1} << 20;
inline constexpr double number_limit = 1e9;

}  // namespace shardbench
