#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// "124,439,808".
std::string grouped(double value);
/// "1.23 GB" (1e9), "512 B".
std::string bytes_text(double bytes);
/// "1.23 TFLOP".
std::string flops_text(double flops);
/// Lines of a table: the first row is the heading, the first column is left-aligned, the others right.
std::vector<std::string> table_lines(std::vector<std::vector<std::string>> const& rows);
/// "1 row", "2 rows".
std::string counted(std::size_t count, std::string_view noun);
/// Line breaks become spaces, so that a message stays one line.
std::string one_line(std::string text);

}  // namespace shardbench
