#include "harness/report/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "harness/config/field_text.hpp"
#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

// A step time of one source, and where it stands.
struct Timed {
  std::string source;
  double step_ms = 0;
  std::size_t row = 0;
};

// Configurations in order of appearance.
struct Timings {
  std::vector<std::string> order;
  std::map<std::string, std::vector<Timed>> by_key;
};

double positive_number(CsvTable const& table, std::size_t row, std::string const& cell) {
  double value = 0;
  auto const [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value > 0) || !std::isfinite(value))
    throw InputError(fmt::format("{}: row {} has step_ms_p50 {}: a positive number or nothing is allowed", table.name,
                                 row + 1, in_quotes(cell)));
  return value;
}

Timings timings_of(CsvTable const& table) {
  Timings result;
  std::size_t const source = table.column("source"), step = table.column("step_ms_p50");
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    CsvRecord const& cells = table.rows[row];
    if (cells[step].empty()) continue;
    double const step_ms = positive_number(table, row, cells[step]);
    std::string key = configuration_key(table, row);
    auto& times = result.by_key[key];
    if (times.empty()) result.order.push_back(std::move(key));
    std::erase_if(times, [&](Timed const& earlier) { return earlier.source == cells[source]; });
    times.push_back({cells[source], step_ms, row});
  }
  return result;
}

// Columns whose cells differ among the rows that are shown; the others would only repeat themselves.
std::vector<std::string_view> varying_columns(CsvTable const& table, std::vector<std::size_t> const& rows) {
  std::vector<std::string_view> names;
  for (auto const& column : report_columns()) {
    if (!is_configuration_column(column) || column.name == "model") continue;
    std::size_t const index = table.column(column.name);
    bool const varies = std::any_of(rows.begin(), rows.end(), [&](std::size_t row) {
      return table.rows[row][index] != table.rows[rows.front()][index];
    });
    if (varies) names.push_back(column.name);
  }
  return names;
}

std::string describe(CsvTable const& table, std::size_t row, std::vector<std::string_view> const& columns) {
  std::string text = table.rows[row][table.column("model")];
  for (std::string_view name : columns) text += fmt::format(" {}={}", name, table.rows[row][table.column(name)]);
  return text;
}

bool share_a_source(std::vector<Timed> const& a, std::vector<Timed> const& b) {
  return std::any_of(a.begin(), a.end(), [&](Timed const& x) {
    return std::any_of(b.begin(), b.end(), [&](Timed const& y) { return x.source == y.source; });
  });
}

void join(std::vector<Timed> const& a, std::vector<Timed> const& b, std::vector<ComparedRow>& rows,
          std::vector<std::size_t>& rows_of_a) {
  bool const same_source = share_a_source(a, b);
  for (Timed const& x : a)
    for (Timed const& y : b) {
      if (same_source && x.source != y.source) continue;
      rows.push_back({"", x.source, y.source, x.step_ms, y.step_ms, y.step_ms / x.step_ms});
      rows_of_a.push_back(x.row);
    }
}

}  // namespace

std::string configuration_key(ReportRow const& row) {
  CsvRecord cells;
  for (auto const& column : report_columns())
    if (is_configuration_column(column)) cells.push_back(column.cell(row));
  return csv_line(cells);
}

std::string configuration_key(CsvTable const& table, std::size_t row) {
  CsvRecord cells;
  for (auto const& column : report_columns())
    if (is_configuration_column(column)) cells.push_back(table.rows[row][table.column(column.name)]);
  return csv_line(cells);
}

Comparison compare(CsvTable const& a, CsvTable const& b) {
  Timings const times_a = timings_of(a), times_b = timings_of(b);
  Comparison result;
  std::vector<std::size_t> rows_of_a;
  for (std::string const& key : times_a.order) {
    auto const found = times_b.by_key.find(key);
    if (found == times_b.by_key.end())
      ++result.only_in_a;
    else
      join(times_a.by_key.at(key), found->second, result.rows, rows_of_a);
  }
  result.only_in_b = static_cast<std::size_t>(std::count_if(
      times_b.order.begin(), times_b.order.end(), [&](auto const& key) { return !times_a.by_key.contains(key); }));
  if (rows_of_a.empty()) return result;
  auto const columns = varying_columns(a, rows_of_a);
  for (std::size_t i = 0; i < rows_of_a.size(); ++i) result.rows[i].configuration = describe(a, rows_of_a[i], columns);
  return result;
}

}  // namespace shardbench
