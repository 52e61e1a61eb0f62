#include "harness/report/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

template <class Row>
void add_tables(std::string& markdown, std::span<Column<Row> const> columns) {
  std::string_view group;
  for (auto const& column : columns) {
    if (column.group != group) {
      group = column.group;
      markdown += fmt::format("\n### {}\n\n| column | unit | meaning |\n|---|---|---|\n", group);
    }
    markdown += fmt::format("| `{}` | {} | {} |\n", column.name, column.unit, escaped(column.description));
  }
}

}  // namespace

std::span<Column<ReportRow> const> report_columns() {
  static std::vector<Column<ReportRow>> const all = [] {
    auto const first = configuration_columns(), second = result_columns(), third = later_columns();
    std::vector<Column<ReportRow>> joined(first.begin(), first.end());
    joined.insert(joined.end(), second.begin(), second.end());
    joined.insert(joined.end(), third.begin(), third.end());
    return joined;
  }();
  return all;
}

bool is_configuration_column(Column<ReportRow> const& column) {
  return (column.group == "what" || column.group == "cut") && column.name != "attention_kernel";
}

bool is_execution_column(Column<ReportRow> const& column) {
  constexpr std::array<std::string_view, 8> names{"seed",          "attention", "nccl_algo",  "nccl_proto",
                                                  "nccl_channels", "share_gpu", "cuda_graph", "verify_collectives"};
  return std::ranges::find(names, column.name) != names.end();
}

std::string column_reference_markdown() {
  std::string markdown;
  add_tables(markdown, report_columns());
  add_tables(markdown, ops_columns());
  return markdown;
}

}  // namespace shardbench
