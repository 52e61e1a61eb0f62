#pragma once
// What the readers of other tools' outputs share.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace shardbench {

/// Calls visit(part) for each part between separators; an empty text is one part.
template <class Visit>
void each_part(std::string_view text, char separator, Visit visit) {
  for (std::size_t start = 0; start <= text.size();) {
    std::size_t const end = std::min(text.find(separator, start), text.size());
    visit(text.substr(start, end - start));
    start = end + 1;
  }
}

/// Calls visit(line) for each line; the last one may lack its line break.
template <class Visit>
void each_line(std::string_view text, Visit visit) {
  if (text.empty()) return;
  if (text.ends_with('\n')) text.remove_suffix(1);
  each_part(text, '\n', visit);
}

/// The text as a number; nothing unless all of it is one.
template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number value = 0;
  auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc{} && stop == text.data() + text.size() ? std::optional(value)
                                                                                    : std::nullopt;
}

/// Length of a colour code at `text`, also of one whose escape character was lost on the way ("[4m"); 0 when there is
/// none.
std::size_t escape_length(std::string_view text);

/// The first bytes of a file, one more than `most` when it is longer. Throws InputError.
std::string read_at_most(std::string const& path, std::size_t most);

}  // namespace shardbench
