#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/calibrate/nccl_log.hpp"

namespace shardbench {

/// A word of a line and where it ends.
struct LogWord {
  std::string_view text;
  std::size_t end = 0;
};

/// The line without control characters, colour codes, launchers' tags ("[1,0]<stdout>:", "[3]") and the label that srun
/// -l or kubectl logs --timestamps puts before it.
std::string clean_line(std::string_view line);
std::vector<LogWord> log_words(std::string_view line);

/// What the header line says about the columns after "type".
struct RowLayout {
  enum class Cell : std::uint8_t { time, algbw, busbw, wrong, error, other };
  bool known = false, redop = false, root = false;
  std::vector<Cell> cells;        ///< of both halves
  std::vector<std::size_t> ends;  ///< where each cell's name ends in the header line
};

/// Whether the words are a header; fills `layout`.
bool read_header(std::vector<LogWord> const& words, RowLayout& layout);

/// Index of the next "size count type" in the words from `from` on; words.size() when there is none.
std::size_t find_row(std::vector<LogWord> const& words, std::size_t from);

/// Reads the row at words[begin..end). Returns whether it is whole.
bool read_row(std::vector<LogWord> const& words, std::size_t begin, std::size_t end, RowLayout const& layout,
              NcclRow& row);

/// A finite number of a log, with or without a sign; nothing otherwise.
std::optional<double> log_number(std::string_view text);

/// Half of the last digit of a printed number.
double rounding_of(std::string_view number);

/// What an "error" column of old versions means for a type (their own limits: DeltaMaxValue of common.cu).
NcclCheck check_of_error(double error, std::string_view type);

}  // namespace shardbench
