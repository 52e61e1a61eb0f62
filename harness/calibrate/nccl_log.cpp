#include "harness/calibrate/nccl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "harness/calibrate/nccl_json.hpp"
#include "harness/calibrate/nccl_row.hpp"
#include "harness/calibrate/text_input.hpp"
#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_log_bytes = std::size_t{16} << 20;
constexpr std::size_t kept_lines = 20;
constexpr std::int64_t most_ranks = std::int64_t{1} << 24;

struct ProgramName {
  std::string_view program, collective;
};
constexpr ProgramName programs[] = {
    {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"},  {"reduce_scatter_perf", "reduce_scatter"},
    {"alltoall_perf", "all_to_all"},   {"alltoallv_perf", "all_to_all_v"}, {"broadcast_perf", "broadcast"},
    {"sendrecv_perf", "send_receive"}, {"reduce_perf", "reduce"},          {"gather_perf", "gather"},
    {"scatter_perf", "scatter"},       {"hypercube_perf", "hypercube"}};

/// The collective whose program is named in the text; empty when none is.
std::string named_collective(std::string_view text) {
  for (ProgramName const& p : programs) {
    std::size_t const at = text.find(p.program);
    // "reduce_perf" is also the end of "all_reduce_perf", which stands before it in the table.
    if (at != text.npos && (at == 0 || (text[at - 1] != '_' && !(text[at - 1] >= 'a' && text[at - 1] <= 'z'))))
      return std::string(p.collective);
  }
  return {};
}

std::string_view after(std::string_view line, std::string_view words) {
  std::size_t const at = line.find(words);
  return at == line.npos ? std::string_view() : line.substr(at + words.size());
}

std::string_view first_word(std::string_view text) {
  std::vector<LogWord> const words = log_words(text);
  return words.empty() ? std::string_view() : words.front().text;
}

/// The number behind the colon that follows some words.
std::optional<double> number_after(std::string_view line, std::string_view words) {
  return log_number(first_word(after(after(line, words), ":")));
}

/// Whether nothing of a table was there yet.
bool is_fresh(NcclRun const& run) {
  return run.rows.empty() && run.devices.empty() && run.headers == 0 && run.starts == 0;
}

class LogReader {
 public:
  explicit LogReader(NcclLog& log) : log_(log) {}

  void read(std::string_view text) {
    each_line(text, [&](std::string_view line) { ++line_, read_line(clean_line(line)); });
    std::erase_if(log_.runs, [](NcclRun const& run) { return is_fresh(run) && run.cut_lines.empty(); });
  }

 private:
  NcclRun& run() {
    if (log_.runs.empty()) log_.runs.emplace_back(), closed_ = false;
    return log_.runs.back();
  }
  /// A run for what comes now: the current one unless it has ended.
  NcclRun& open_run(bool before_rows = false) {
    NcclRun& current = run();
    if (!closed_ && !(before_rows && !current.rows.empty())) return current;
    closed_ = false;
    return log_.runs.emplace_back();
  }

  void read_line(std::string const& line) {
    std::vector<LogWord> const words = log_words(line);
    if (words.empty()) return;
    if (read_rows(words) || read_marks(line, words) || read_footer(line)) return;
    if (words.front().text.front() == '#') return;
    if (words.size() > 2 && words[0].text == "Rank") return;
    // Unit lines lose their '#' with the other comments.
    if (words.front().text == "(B)" || words.front().text == "out-of-place" || words.front().text == "Using") return;
    ++log_.other_count;
    if (log_.other_lines.size() < kept_lines) log_.other_lines.push_back(line);
  }

  bool read_rows(std::vector<LogWord> const& words) {
    std::size_t at = find_row(words, 0);
    if (at == words.size()) return false;
    while (at < words.size()) {
      std::size_t const next = find_row(words, at + 3);
      NcclRun& target = open_run();
      NcclRow row;
      row.line = line_;
      if (!read_row(words, at, next, layout_, row)) target.cut_lines.push_back(line_);
      if (row.out_of_place || row.in_place) target.rows.push_back(std::move(row));
      at = next;
    }
    return true;
  }

  bool read_marks(std::string const& line, std::vector<LogWord> const& words) {
    if (words.front().text.starts_with("##")) {
      NcclRun& next = start_section();
      next.title = line.substr(std::min(line.find_first_not_of("# "), line.size()));
      return true;
    }
    if (line.find("algbw") != line.npos && read_header(words, layout_)) {
      NcclRun& target = open_run();
      ++target.headers;
      target.redop_column = layout_.redop;
      return true;
    }
    if (line.find("Collective test starting") != line.npos) return name_run(start_section(), line);
    if (line.find("Collective test concluded") != line.npos) return name_run(run(), line);
    if (line.find("nThread") != line.npos && line.find("nGpus") != line.npos) {
      ++open_run(true).starts;
      return true;
    }
    if (read_device(words) || read_versions(line)) return true;
    if (line.find("runcated") != line.npos || words.front().text == "...") {
      run().truncated = true;
      return true;
    }
    if (!named_collective(line).empty() && line.find(" INFO ") == line.npos) return name_run(open_run(true), line);
    return false;
  }

  NcclRun& start_section() {
    if (!is_fresh(run())) closed_ = true;
    return open_run();
  }

  bool name_run(NcclRun& target, std::string const& line) {
    std::string const name = named_collective(line);
    if (!name.empty()) target.collective = name, target.collective_named = true;
    return true;
  }

  /// "#  Rank  0 Group  0 Pid  1 on host device  0 [0000:b4:00] NVIDIA ...".
  bool read_device(std::vector<LogWord> const& words) {
    auto const find = [&](std::string_view text) { return std::ranges::find(words, text, &LogWord::text); };
    auto const rank = find("Rank"), on = find("on"), device = find("device"), end = words.end();
    if (rank == end || on == end || device == end || end - rank < 2 || end - device < 2 || !(rank < on && on < device))
      return false;
    auto const number = parsed<std::int64_t>((rank + 1)->text), ordinal = parsed<std::int64_t>((device + 1)->text);
    if (!number || !ordinal || *number < 0 || *number > most_ranks) return false;
    NcclDevice d{*number, *ordinal, device - on > 1 ? std::string((on + 1)->text) : std::string(), {}, {}};
    if (end - device > 2) d.bus = std::string((device + 2)->text);
    for (auto word = device + std::min<std::ptrdiff_t>(3, end - device); word != end; ++word)
      d.name += (d.name.empty() ? "" : " ") + std::string(word->text);
    open_run(true).devices.push_back(std::move(d));
    return true;
  }

  bool read_versions(std::string const& line) {
    std::string_view const rest = after(line, "nccl-tests version ");
    if (!rest.empty()) {
      open_run(true).tests_version = first_word(rest);
      return true;
    }
    std::string_view const version = first_word(after(line, "NCCL version "));
    if (!version.empty()) open_run().nccl_version = version;
    return !version.empty();
  }

  bool read_footer(std::string const& line) {
    if (line.find("Out of bounds values") != line.npos) {
      if (auto const count = number_after(line, "Out of bounds"); count && *count >= 0 && *count < 1e15)
        run().out_of_bounds = run().out_of_bounds.value_or(0) + static_cast<std::int64_t>(*count);
      return true;
    }
    if (line.find("Avg bus bandwidth") == line.npos) return false;
    run().printed_average = number_after(line, "Avg bus bandwidth");
    closed_ = true;
    return true;
  }

  NcclLog& log_;
  RowLayout layout_;
  std::int64_t line_ = 0;
  bool closed_ = false;
};

/// Adds the run to the tables, a table for each type of element that it has (-d all): types differ in speed. The
/// printed average is over all of them and so belongs to none.
void split_types(NcclRun run, std::vector<NcclRun>& tables) {
  std::vector<std::string> types;
  for (NcclRow const& row : run.rows)
    if (std::ranges::find(types, row.type) == types.end()) types.push_back(row.type);
  if (types.size() < 2) return tables.push_back(std::move(run));
  std::vector<NcclRow> const rows = std::exchange(run.rows, {});
  run.printed_average.reset();
  run.types = types;
  for (std::string const& type : types) {
    NcclRun& table = tables.emplace_back(run);
    std::ranges::copy_if(rows, std::back_inserter(table.rows), [&](NcclRow const& row) { return row.type == type; });
  }
}

}  // namespace

std::string NcclRun::type() const { return rows.empty() ? std::string() : rows.front().type; }

std::int64_t NcclRun::nodes() const {
  std::set<std::string> hosts;
  for (NcclDevice const& d : devices) hosts.insert(d.host);
  return static_cast<std::int64_t>(hosts.size());
}

bool NcclRun::shares_device() const {
  std::set<std::tuple<std::string, std::int64_t, std::string>> seen;
  std::set<std::pair<std::string, std::int64_t>> counted;
  for (NcclDevice const& d : devices)
    if (counted.insert({d.host, d.rank}).second && !seen.insert({d.host, d.device, d.bus}).second) return true;
  return false;
}

NcclLog parse_nccl_log(std::string_view text, std::string_view name) {
  if (text.size() > max_log_bytes) throw InputError(fmt::format("{}: longer than {} bytes", name, max_log_bytes));
  NcclLog log;
  log.name = name;
  std::size_t const first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    NcclRun run = parse_nccl_json(text, name);
    run.collective = named_collective(run.title);
    run.collective_named = !run.collective.empty();
    run.title.clear();
    log.runs.push_back(std::move(run));
  } else {
    LogReader(log).read(text);
  }
  if (log.runs.empty())
    throw InputError(fmt::format("{}: nothing of nccl-tests in it (no table, no device list)", printable(name)));
  std::vector<NcclRun> tables;
  for (NcclRun& run : log.runs) split_types(std::move(run), tables);
  log.runs = std::move(tables);
  for (NcclRun& run : log.runs) identify(run);
  return log;
}

NcclLog read_nccl_log(std::string const& path) { return parse_nccl_log(read_at_most(path, max_log_bytes), path); }

}  // namespace shardbench
