#include "harness/report/comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "harness/config/field_text.hpp"
#include "harness/record/statistics.hpp"
#include "harness/report/column_groups.hpp"
#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

using ReportColumn = Column<ReportRow>;

constexpr std::array<std::string_view, 3> place_columns{"system", "software_stack", "device"};

// A step time, of what it is, and where it stands.
struct Timed {
  std::string source, execution, place;
  double step_ms = 0;
  std::size_t row = 0;
  bool met = false;
};

// Configurations in order of appearance.
struct Timings {
  std::vector<std::string> order;
  std::map<std::string, std::vector<Timed>> by_key;
  std::size_t repeated = 0, without_time = 0;
};

/// What the row's command says; a plain experiment where the command is of another program.
ReportRow told_by_command(std::string const& command) {
  ReportRow told;
  try {
    told.experiment = experiment_of_command(command);
  } catch (InputError const&) {
  }
  return told;
}

/// With the configuration columns that came after the file was written, as its commands tell them.
CsvTable completed(CsvTable table) {
  std::vector<ReportColumn const*> missing;
  for (ReportColumn const& column : later_columns())
    if (is_configuration_column(column) && !table.find_column(column.name)) missing.push_back(&column);
  if (missing.empty()) return table;
  std::size_t const command = table.column("command");
  for (ReportColumn const* const column : missing) table.header.emplace_back(column->name);
  for (CsvRecord& cells : table.rows) {
    ReportRow const told = told_by_command(cells[command]);
    for (ReportColumn const* const column : missing) cells.push_back(column->cell(told));
  }
  return table;
}

std::string const& cell_of(CsvTable const& table, std::size_t row, ReportColumn const& column) {
  return table.rows[row][table.column(column.name)];
}

template <class Predicate>
std::string cells_text(CsvTable const& table, std::size_t row, Predicate takes) {
  CsvRecord cells;
  for (auto const& column : report_columns())
    if (takes(column)) cells.push_back(cell_of(table, row, column));
  return csv_line(cells);
}

bool is_place_column(ReportColumn const& column) {
  return std::ranges::find(place_columns, column.name) != place_columns.end();
}

bool is_shared_column(ReportColumn const& column) {
  return is_configuration_column(column) && !is_execution_column(column);
}

double positive_number(CsvTable const& table, std::size_t row, std::string const& cell) {
  auto const value = number_in<double>(cell);
  if (!value || !(*value > 0) || !std::isfinite(*value))
    throw InputError(fmt::format("{}: row {} has step_ms_p50 {}: a positive number or nothing is allowed", table.name,
                                 row + 1, in_quotes(cell)));
  return *value;
}

/// Refuses a cell that is not one of the names of an enumeration.
template <class Enum>
void check_word(CsvTable const& table, std::size_t row, std::string_view column) {
  std::vector<std::string_view> names;
  for (Enum const value : enum_values<Enum>()) names.push_back(to_string(value));
  std::string const& cell = table.rows[row][table.column(column)];
  if (std::ranges::find(names, cell) == names.end())
    throw InputError(fmt::format("{}: row {} has {} {}; allowed: {}", table.name, row + 1, column, in_quotes(cell),
                                 fmt::join(names, ", ")));
}

Timings timings_of(CsvTable const& table) {
  Timings result;
  std::size_t const source = table.column("source"), step = table.column("step_ms_p50");
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    CsvRecord const& cells = table.rows[row];
    check_word<Source>(table, row, "source");
    check_word<Outcome>(table, row, "outcome");
    if (cells[step].empty()) {
      ++result.without_time;
      continue;
    }
    Timed now{cells[source],
              cells_text(table, row, is_execution_column),
              cells_text(table, row, is_place_column),
              positive_number(table, row, cells[step]),
              row,
              false};
    std::string key = cells_text(table, row, is_shared_column);
    auto& times = result.by_key[key];
    if (times.empty()) result.order.push_back(std::move(key));
    result.repeated += std::erase_if(times, [&](Timed const& earlier) {
      return earlier.source == now.source && earlier.execution == now.execution && earlier.place == now.place;
    });
    times.push_back(std::move(now));
  }
  return result;
}

/// Columns whose cells differ among the rows that are shown; the others would only repeat themselves.
std::vector<ReportColumn const*> varying_columns(CsvTable const& table, std::vector<std::size_t> const& rows) {
  std::vector<ReportColumn const*> result;
  for (auto const& column : report_columns()) {
    if (column.name == "model" || !(is_configuration_column(column) || is_place_column(column))) continue;
    std::string const first = cell_of(table, rows.front(), column);
    if (std::ranges::any_of(rows, [&](std::size_t row) { return cell_of(table, row, column) != first; }))
      result.push_back(&column);
  }
  return result;
}

std::string describe(CsvTable const& table, std::size_t row, std::vector<ReportColumn const*> const& columns) {
  std::string text = table.rows[row][table.column("model")];
  for (ReportColumn const* const column : columns)
    text += fmt::format(" {}={}", column->name, cell_of(table, row, *column));
  return text;
}

/// How a row ended, where that puts its time in doubt.
std::string doubt(CsvTable const& table, std::size_t row, char const* file) {
  std::string const& outcome = table.rows[row][table.column("outcome")];
  return outcome == to_string(Outcome::passed) ? std::string() : fmt::format(" ({}: {})", file, outcome);
}

/// The step time of a row and how its repeats scatter; nothing where that is not told.
std::optional<Spread> spread_of(CsvTable const& table, Timed const& timed) {
  auto const column = table.find_column("step_cv_pct");
  if (!column) return std::nullopt;
  auto const share = number_in<double>(table.rows[timed.row][*column]);
  if (!share) return std::nullopt;
  return Spread{timed.step_ms, timed.step_ms * *share / 100};
}

using Pairs = std::vector<std::pair<Timed*, Timed*>>;

/// Only the pairs of which `holds` is true, or all when it is of none.
template <class Predicate>
void prefer(Pairs& pairs, Predicate holds) {
  if (std::ranges::any_of(pairs, holds)) std::erase_if(pairs, [&](auto const& pair) { return !holds(pair); });
}

Pairs pairs_of(std::vector<Timed>& a, std::vector<Timed>& b) {
  Pairs pairs;
  for (Timed& x : a)
    for (Timed& y : b)
      if (x.source != y.source || x.execution == y.execution) pairs.emplace_back(&x, &y);
  prefer(pairs, [](auto const& p) { return p.first->source == p.second->source; });
  prefer(pairs, [](auto const& p) { return p.first->place == p.second->place; });
  return pairs;
}

std::size_t unmet(Timings const& timings) {
  std::size_t count = 0;
  for (auto const& [key, times] : timings.by_key) count += std::ranges::count(times, false, &Timed::met);
  return count;
}

}  // namespace

std::string configuration_key(ReportRow const& row) {
  CsvRecord cells;
  for (auto const& column : report_columns())
    if (is_configuration_column(column)) cells.push_back(column.cell(row));
  return csv_line(cells);
}

std::string configuration_key(CsvTable const& table, std::size_t row) {
  CsvTable const alone{table.name, table.header, {table.rows[row]}};
  return cells_text(completed(alone), 0, is_configuration_column);
}

Comparison compare(CsvTable const& file_a, CsvTable const& file_b) {
  CsvTable const a = completed(file_a), b = completed(file_b);
  Timings times_a = timings_of(a), times_b = timings_of(b);
  Pairs all;
  for (std::string const& key : times_a.order)
    if (auto const found = times_b.by_key.find(key); found != times_b.by_key.end())
      for (auto const& pair : pairs_of(times_a.by_key.at(key), found->second)) all.push_back(pair);
  Comparison result;
  std::vector<std::size_t> rows_of_a;
  for (auto const& [x, y] : all) {
    x->met = y->met = true;
    auto const spread_x = spread_of(a, *x), spread_y = spread_of(b, *y);
    result.rows.push_back({"", x->source, y->source, x->step_ms, y->step_ms, y->step_ms / x->step_ms, {}});
    if (spread_x && spread_y) result.rows.back().differs = means_differ(*spread_x, *spread_y);
    rows_of_a.push_back(x->row);
  }
  result.only_in_a = unmet(times_a), result.only_in_b = unmet(times_b);
  result.repeated_in_a = times_a.repeated, result.repeated_in_b = times_b.repeated;
  result.without_time = times_a.without_time + times_b.without_time;
  if (all.empty()) return result;
  auto const columns = varying_columns(a, rows_of_a);
  for (std::size_t i = 0; i < all.size(); ++i)
    result.rows[i].configuration =
        describe(a, all[i].first->row, columns) + doubt(a, all[i].first->row, "A") + doubt(b, all[i].second->row, "B");
  return result;
}

}  // namespace shardbench
