#pragma once
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report_row.hpp"

namespace shardbench {

using CsvRecord = std::vector<std::string>;

/// The number that a whole cell is.
template <class Number>
std::optional<Number> number_in(std::string_view cell) {
  Number value = 0;
  auto const [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && stop == cell.data() + cell.size() ? std::optional(value) : std::nullopt;
}

/// A CSV file read back; every row has as many cells as the header.
struct CsvTable {
  std::string name;  ///< path, for messages
  CsvRecord header;
  std::vector<CsvRecord> rows;
  /// Index of a column, empty when there is none of this name.
  std::optional<std::size_t> find_column(std::string_view column) const;
  /// Index of a column. Throws InputError naming the file and the column when it is missing.
  std::size_t column(std::string_view column) const;
};

/// One record as a line of RFC 4180, except that it ends in LF alone: cells with comma, quote or line break are quoted.
std::string csv_line(std::span<std::string const> cells);

/// Reads RFC 4180 (LF or CRLF, UTF-8 byte order mark skipped) from untrusted text. Throws InputError with name and line
/// on an open quote, text after a closing quote, a missing, empty or repeated header name, a row of another width or a
/// NUL.
CsvTable parse_csv(std::string_view text, std::string name);
/// As parse_csv; throws InputError also when the file cannot be read or exceeds 1 GiB.
CsvTable read_csv(std::string const& path);

/// Throws InputError unless rows of this header can be appended to `path`: an existing file must be a regular, writable
/// file that is empty or starts with this very header; otherwise its folder must exist and allow a new file. Creates
/// nothing. Call before any work is done.
void check_writable(std::string const& path, std::span<std::string const> header);
/// The same for the summary and the ops file.
void check_report_writable(std::string const& path);
void check_ops_writable(std::string const& path);

/// Appends records in one write() and waits until they are on the disk; writes the header first in a new file. Safe
/// from several processes. Throws InputError as check_writable does, or when the disk takes less than the whole: then
/// the file is left as it was.
void append_records(std::string const& path, std::span<std::string const> header, std::span<CsvRecord const> records);
void append_row(std::string const& path, ReportRow const& row);
void append_rows(std::string const& path, std::span<OpsRow const> rows);

}  // namespace shardbench
