#include "bench/shardbench/jobs/point_outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "harness/config/field_text.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

constexpr std::string_view begins = "@point-begins", ends = "@point-ends";

std::string cell_of(std::optional<double> value) { return value ? fmt::format("{}", *value) : std::string(); }

std::optional<double> value_of(std::string const& cell) {
  double value = 0;
  auto const [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && stop == cell.data() + cell.size() && !cell.empty() ? std::optional(value)
                                                                                    : std::nullopt;
}

std::string without_tabs(std::string text) {
  std::ranges::replace(text, '\t', ' ');
  return one_line(std::move(text));
}

std::optional<Outcome> outcome_named(std::string const& name) {
  for (Outcome const outcome : enum_values<Outcome>())
    if (to_string(outcome) == name) return outcome;
  return std::nullopt;
}

}  // namespace

PointOutcome outcome_of(ReportRow const& row) {
  bool const images = row.experiment.model.takes_images();
  return {row.outcome,       row.step_ms_p50,     images ? row.samples_per_s : row.tokens_per_s,
          row.compute_ms,    row.exposed_comm_ms, row.idle_ms,
          row.max_rel_error, row.reason};
}

std::string to_line(WorkerMessage const& m) {
  if (!m.done) return fmt::format("{}\t{}", begins, m.index);
  PointOutcome const& o = m.outcome;
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", ends, m.index, to_string(o.outcome),
                     cell_of(o.step_ms), cell_of(o.rate_per_s), cell_of(o.compute_ms), cell_of(o.exposed_ms),
                     cell_of(o.idle_ms), cell_of(o.max_rel_error), without_tabs(o.reason), without_tabs(m.row));
}

std::optional<WorkerMessage> parse_worker_line(std::string const& line) {
  std::vector<std::string> const cells = split_at(line, '\t');
  bool const done = cells[0] == ends && cells.size() == 11;
  if (!done && (cells[0] != begins || cells.size() != 2)) return std::nullopt;
  WorkerMessage m;
  m.done = done;
  auto const index = value_of(cells[1]);
  if (!index || *index < 0) return std::nullopt;
  m.index = static_cast<decltype(m.index)>(*index);
  if (!done) return m;
  auto const outcome = outcome_named(cells[2]);
  if (!outcome) return std::nullopt;
  m.outcome = {*outcome,           value_of(cells[3]), value_of(cells[4]), value_of(cells[5]),
               value_of(cells[6]), value_of(cells[7]), value_of(cells[8]), cells[9]};
  m.row = cells[10];
  return m;
}

}  // namespace shardbench
