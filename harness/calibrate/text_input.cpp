#include "harness/calibrate/text_input.hpp"

#include <fmt/format.h>

#include <fstream>

#include "kernels/core/error.hpp"

namespace shardbench {

std::string read_at_most(std::string const& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(file.gcount());
  return text;
}

}  // namespace shardbench
