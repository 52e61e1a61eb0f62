#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/cell_text.hpp"
#include "harness/config/knob.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// Version of the set of columns; grows when a column changes its name or meaning.
inline constexpr int report_schema_version = 2;

/// A column: its name, what it means, and how a row's cell is made. The header, the cells, the JSON keys and
/// results/README.md all come from the tables of these.
template <class Row>
struct Column {
  std::string group;  ///< "identity", "what", "cut", ...
  std::string name;   ///< the header
  std::string unit;   ///< "ms", "bytes", ... or empty
  CellKind kind;
  std::string description;  ///< meaning or formula, one line
  std::function<std::string(Row const& row)> cell;
  Knob const* knob = nullptr;  ///< which the column shows, if any
};

/// Every column of the summary CSV, in order.
std::span<Column<ReportRow> const> report_columns();
/// Of these, the ones that came after the first files were written; a file may lack them.
std::span<Column<ReportRow> const> later_columns();
/// Every column of the ops CSV, in order.
std::span<Column<OpsRow> const> ops_columns();

/// True for the columns that tell one configuration from another (the groups "what" and "cut", less what only a run
/// knows).
bool is_configuration_column(Column<ReportRow> const& column);
/// Of these, the ones that only an execution knows: predictions are of every value of them.
bool is_execution_column(Column<ReportRow> const& column);

template <class Row>
std::vector<std::string> header_of(std::span<Column<Row> const> columns) {
  std::vector<std::string> names;
  for (auto const& column : columns) names.emplace_back(column.name);
  return names;
}

template <class Row>
std::vector<std::string> cells_of(std::span<Column<Row> const> columns, Row const& row) {
  std::vector<std::string> cells;
  for (auto const& column : columns) cells.push_back(column.cell(row));
  return cells;
}

/// The tables of results/README.md, as Markdown: one table a group, then the ops file's.
std::string column_reference_markdown();

/// The rows as a JSON array of objects, keys in column order, cells that are empty as null.
std::string to_json(std::span<ReportRow const> rows);

}  // namespace shardbench
