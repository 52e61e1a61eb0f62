#pragma once
// The parts of the table of columns; report_columns() joins them.
#include "harness/report/columns.hpp"

namespace shardbench {

/// Groups identity, what, cut and where.
std::span<Column<ReportRow> const> configuration_columns();
/// Groups time, rate, memory, traffic and truth.
std::span<Column<ReportRow> const> result_columns();
/// What came later: the rest of the cut, and group plan.
std::span<Column<ReportRow> const> later_columns();

}  // namespace shardbench
