#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/config/field_text.hpp"
#include "harness/report/columns.hpp"
#include "harness/report/csv.hpp"
#include "harness/report/descriptor.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

[[noreturn]] void refuse(std::string const& path, std::string_view why) {
  throw InputError(fmt::format("cannot write to '{}': {}", path, why));
}

// Throws InputError when the system does not give the file.
int opened(std::string const& path, int flags) {
  int const file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0) refuse(path, std::strerror(errno));
  return file;
}

std::size_t size_of(int file) {
  struct stat status {};
  VALIDATE(fstat(file, &status) == 0, std::strerror(errno));
  return status.st_size;
}

// The start of a file, enough to hold the expected header line and a longer one's first difference.
std::string read_start(int file, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    ssize_t const now = pread(file, text.data() + got, bytes - got, static_cast<off_t>(got));
    if (now <= 0) break;
    got += now;
  }
  text.resize(got);
  return text;
}

std::string first_difference(std::string_view found_line, std::span<std::string const> header) {
  CsvRecord found;
  try {
    found = parse_csv(found_line, "header").header;
  } catch (InputError const&) {
    return "its first line is no CSV header";
  }
  for (std::size_t i = 0; i < std::max(found.size(), header.size()); ++i) {
    if (i >= found.size()) return fmt::format("its header ends before column '{}'", header[i]);
    if (i >= header.size()) return fmt::format("its header has a further column {}", in_quotes(found[i]));
    if (found[i] != header[i])
      return fmt::format("its column {} is {}, expected '{}'", i + 1, in_quotes(found[i]), header[i]);
  }
  return "its header is written another way";
}

void check_start(std::string const& path, int file, std::span<std::string const> header) {
  std::string const expected = csv_line(header);
  std::string const start = read_start(file, expected.size() + 1024);
  if (!start.starts_with(expected)) {
    std::string_view line = start;
    line = line.substr(0, line.find_first_of("\r\n"));
    refuse(path, fmt::format("it is not such a report ({}); give a new file", first_difference(line, header)));
  }
  std::array<char, 1> last{};
  auto const end = static_cast<off_t>(size_of(file));
  if (pread(file, last.data(), 1, end - 1) != 1 || last[0] != '\n')
    refuse(path, "it ends in the middle of a row; remove the torn last line");
}

bool exists_as_file(std::string const& path) {
  if (path.empty()) refuse(path, "the name is empty");
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse(path, std::strerror(errno));
    return false;
  }
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file");
  return true;
}

void write_whole(std::string const& path, int file, std::string const& text) {
  std::size_t const before = size_of(file);
  ssize_t const written = ::write(file, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    if (fsync(file) != 0) refuse(path, std::strerror(errno));
    return;
  }
  std::string const why = written < 0 ? std::strerror(errno) : "the disk is full";
  VALIDATE(ftruncate(file, static_cast<off_t>(before)) == 0, fmt::format("'{}' has a torn last row ({})", path, why));
  refuse(path, why);
}

}  // namespace

std::string csv_line(std::span<std::string const> cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    // A byte order mark is quoted too: at the start of a file it would be taken for the file's own.
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos && !cells[i].starts_with("\xef\xbb\xbf")) {
      line += cells[i];
      continue;
    }
    line += '"';
    for (char c : cells[i]) line.append(c == '"' ? 2 : 1, c);
    line += '"';
  }
  return line += '\n';
}

void check_writable(std::string const& path, std::span<std::string const> header) {
  if (exists_as_file(path)) {
    Descriptor const file(opened(path, O_RDWR));
    if (size_of(file.get()) > 0) check_start(path, file.get(), header);
    return;
  }
  auto const folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    refuse(path, fmt::format("folder '{}' does not exist", folder.string()));
  // Only creating a file tells whether one can be created: permissions do not bind root, and a disk may be read-only.
  Descriptor const file(opened(path, O_WRONLY | O_CREAT | O_EXCL));
  ::unlink(path.c_str());
}

void check_report_writable(std::string const& path) { check_writable(path, header_of(report_columns())); }
void check_ops_writable(std::string const& path) { check_writable(path, header_of(ops_columns())); }

void append_records(std::string const& path, std::span<std::string const> header, std::span<CsvRecord const> records) {
  exists_as_file(path);
  Descriptor const file(opened(path, O_RDWR | O_APPEND | O_CREAT));
  // Two processes must not both find the file empty; the lock goes with the descriptor.
  if (flock(file.get(), LOCK_EX) != 0) refuse(path, std::strerror(errno));
  std::string text;
  if (size_of(file.get()) == 0)
    text = csv_line(header);
  else
    check_start(path, file.get(), header);
  for (CsvRecord const& record : records) {
    VALIDATE(record.size() == header.size(), "a record and its header differ in width");
    text += csv_line(record);
  }
  write_whole(path, file.get(), text);
}

void append_row(std::string const& path, ReportRow const& row) {
  CsvRecord const record = cells_of(report_columns(), row);
  append_records(path, header_of(report_columns()), {&record, 1});
}

void append_rows(std::string const& path, std::span<OpsRow const> rows) {
  std::vector<CsvRecord> records;
  for (OpsRow const& row : rows) records.push_back(cells_of(ops_columns(), row));
  append_records(path, header_of(ops_columns()), records);
}

}  // namespace shardbench
