#include "bench/shardbench/jobs/point_outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "harness/config/field_text.hpp"
#include "harness/report/csv.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

constexpr std::string_view begins = "@point-begins", ends = "@point-ends";

/// The numbers of an outcome, in the order of a line.
constexpr std::array numbers{&PointOutcome::step_ms,    &PointOutcome::rate_per_s, &PointOutcome::compute_ms,
                             &PointOutcome::exposed_ms, &PointOutcome::idle_ms,    &PointOutcome::max_rel_error};

std::string cell_of(std::optional<double> value) { return value ? fmt::format("{}", *value) : std::string(); }

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
  std::string line = fmt::format("{}\t{}\t{}", ends, m.index, to_string(o.outcome));
  for (auto const number : numbers) line += '\t' + cell_of(o.*number);
  return fmt::format("{}\t{}\t{}", line, without_tabs(o.reason), without_tabs(m.row));
}

std::optional<WorkerMessage> parse_worker_line(std::string const& line) {
  std::vector<std::string> const cells = split_at(line, '\t');
  bool const done = cells[0] == ends && cells.size() == 11;
  if (!done && (cells[0] != begins || cells.size() != 2)) return std::nullopt;
  WorkerMessage m;
  m.done = done;
  auto const index = number_in<double>(cells[1]);
  if (!index || *index < 0) return std::nullopt;
  m.index = static_cast<decltype(m.index)>(*index);
  if (!done) return m;
  auto const outcome = outcome_named(cells[2]);
  if (!outcome) return std::nullopt;
  m.outcome.outcome = *outcome, m.outcome.reason = cells[9];
  for (std::size_t i = 0; i < numbers.size(); ++i) m.outcome.*numbers[i] = number_in<double>(cells[3 + i]);
  m.row = cells[10];
  return m;
}

}  // namespace shardbench
