#include "harness/calibrate/text_input.hpp"

#include <fmt/format.h>

#include <fstream>

#include "kernels/core/error.hpp"

namespace shardbench {

std::size_t escape_length(std::string_view text) {
  bool const whole = text.starts_with('\x1b');
  std::size_t i = whole ? 1 : 0;
  if (i >= text.size() || text[i] != '[') return 0;
  std::size_t const digits = ++i;
  while (i < text.size() && ((text[i] >= '0' && text[i] <= '9') || text[i] == ';')) ++i;
  if (whole) return std::min(i + 1, text.size());
  return i > digits && i < text.size() && text[i] == 'm' ? i + 1 : 0;
}

std::string read_at_most(std::string const& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(file.gcount());
  return text;
}

}  // namespace shardbench
