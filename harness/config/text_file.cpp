#include "harness/config/text_file.hpp"

#include <filesystem>
#include <fstream>

namespace shardbench {

std::optional<std::string> text_of_file(std::string const& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored)) return std::nullopt;
  std::string text(limit + 1, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(file.gcount());
  return text;
}

}  // namespace shardbench
