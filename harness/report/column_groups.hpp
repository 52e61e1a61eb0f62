#pragma once
// The parts of the table of columns; report_columns() joins them and those of the knobs.
#include <optional>
#include <type_traits>
#include <utility>

#include "harness/report/columns.hpp"

namespace shardbench {

using ReportColumns = std::vector<Column<ReportRow>>;

/// A column that shows a member of the row; numbers unless the member is words or a switch.
template <class Row, class T>
Column<Row> shows(std::string name, T Row::*member, std::string description, std::string unit = "") {
  constexpr CellKind kind = std::is_same_v<T, std::string>           ? CellKind::text
                            : std::is_same_v<T, std::optional<bool>> ? CellKind::flag
                                                                     : CellKind::number;
  return {"",   std::move(name),        std::move(unit),
          kind, std::move(description), [member](Row const& row) { return cell_text::text(row.*member); }};
}

/// A column without unit whose cell is made from the row.
inline Column<ReportRow> tells(std::string name, CellKind kind, std::string description,
                               std::function<std::string(ReportRow const&)> cell) {
  return {"", std::move(name), "", kind, std::move(description), std::move(cell)};
}

/// The columns, as those of the group.
template <class Row>
std::vector<Column<Row>> in_group(std::string_view group, std::vector<Column<Row>> columns) {
  for (auto& column : columns) column.group = group;
  return columns;
}

// Each part without the name of its group.
ReportColumns identity_columns();
/// Sizes of the model, and counts that follow: group "what" beside the knobs.
ReportColumns model_columns();
/// What a run chose: group "cut" beside the knobs.
ReportColumns run_columns();
ReportColumns place_columns();
ReportColumns time_columns();
ReportColumns rate_columns();
ReportColumns memory_columns();
/// What else the peak is made of, and what the device has.
ReportColumns memory_part_columns();
ReportColumns traffic_columns();
ReportColumns truth_columns();
/// What the first step computed: group "truth" too, at the end of the file.
ReportColumns first_step_columns();
ReportColumns band_columns();
ReportColumns plan_columns();

}  // namespace shardbench
