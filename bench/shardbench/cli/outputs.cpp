#include "bench/shardbench/cli/outputs.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "harness/report/csv.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Whether a file begins as reports and their operations do.
bool holds_rows(std::string const& path) {
  std::ifstream file(path);
  std::string header;
  std::getline(file, header);
  return header.starts_with("schema_version,") || header.starts_with("run_id,");
}

}  // namespace

std::string ops_path(std::string const& path) {
  std::string const stem = path.ends_with(".csv") ? path.substr(0, path.size() - 4) : path;
  return stem + "_ops.csv";
}

void check_outputs(std::string const& path) {
  if (path.empty()) return;
  check_report_writable(path);
  check_ops_writable(ops_path(path));
}

void check_text_file(std::string const& flag, std::string const& path, std::string const& out) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  auto const same = [&](std::string const& rows) {
    return fs::weakly_canonical(path, ignored) == fs::weakly_canonical(rows, ignored);
  };
  if (holds_rows(path) || (!out.empty() && (same(out) || same(ops_path(out)))))
    throw InputError(
        fmt::format("--{}: {} is a file of rows, which it would overwrite; allowed: another name", flag, path));
  fs::path const folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  bool const exists = fs::exists(path, ignored);
  if (exists && !fs::is_regular_file(path, ignored))
    throw InputError(fmt::format("--{}: {} is not a file", flag, path));
  if (!fs::is_directory(folder, ignored))
    throw InputError(fmt::format("--{}: {} cannot be written: there is no folder {}", flag, path, folder.string()));
  // Only opening it tells: permissions do not bind root, and a disk may be read-only.
  int const file = open(path.c_str(), O_WRONLY | O_CLOEXEC | (exists ? 0 : O_CREAT | O_EXCL), 0644);
  if (file < 0) throw InputError(fmt::format("--{}: {} cannot be written ({})", flag, path, std::strerror(errno)));
  close(file);
  if (!exists) unlink(path.c_str());
}

void write_text_file(std::string const& path, std::string const& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  VALIDATE(file, fmt::format("{} cannot be written", path));
}

void append_result(std::string const& path, ReportRow const& row, std::vector<OpsRow> const& ops) {
  if (path.empty()) return;
  // The summary row comes last: whoever sees it finds its operations.
  if (!ops.empty()) append_rows(ops_path(path), ops);
  append_row(path, row);
}

std::string new_run_id() {
  std::random_device random;
  auto const now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y%m%dT%H%M%S}-{:08x}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), random());
}

ReportRow start_row(Experiment const& experiment, Source source) {
  ReportRow row;
  row.run_id = new_run_id();
  row.source = source;
  row.experiment = experiment;
  row.reason = fmt::format("{}", fmt::join(warnings(experiment), "; "));
  row.command =
      fmt::format("shardbench {} {}", source == Source::counted ? "describe" : "run", command_flags(experiment));
  return row;
}

}  // namespace shardbench
