#pragma once
#include <optional>
#include <string>

namespace shardbench {

/// What is in a file; nothing when it is none that can be read. Stops one byte beyond `limit`, so that an endless file
/// is refused by its parser and not read.
std::optional<std::string> text_of_file(std::string const& path, std::size_t limit);

}  // namespace shardbench
