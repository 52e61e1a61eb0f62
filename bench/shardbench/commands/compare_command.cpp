#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "harness/report/comparison.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

int compare_command(Arguments const& arguments) {
  std::string const &a = arguments.files[0], &b = arguments.files[1];
  ReportPage const page(arguments);
  CsvTable const table_a = read_csv(a), table_b = read_csv(b);
  Comparison const comparison = compare(table_a, table_b);
  std::vector<std::vector<std::string>> rows{{"configuration", "A", "B", "A step ms", "B step ms", "B / A", ""}};
  for (ComparedRow const& row : comparison.rows)
    rows.push_back({row.configuration, row.source_a, row.source_b, fmt::format("{:.3f}", row.step_ms_a),
                    fmt::format("{:.3f}", row.step_ms_b), fmt::format("{:.3f}", row.ratio),
                    row.differs.value_or(true) ? "" : "within noise"});
  fmt::print("A = {}\nB = {}\n", a, b);
  for (std::string const& line : table_lines(rows)) fmt::print("{}\n", line);
  fmt::print("{} compared; {} only in A, {} only in B. Below 1, B is faster.\n", comparison.rows.size(),
             comparison.only_in_a, comparison.only_in_b);
  if (std::ranges::any_of(comparison.rows, [](ComparedRow const& row) { return row.differs == false; }))
    fmt::print("within noise: the times differ by less than twice the root of their summed variances\n");
  if (comparison.without_time > 0) fmt::print("{}: no step time\n", counted(comparison.without_time, "row"));
  if (comparison.repeated_in_a + comparison.repeated_in_b > 0)
    fmt::print("{} of A and {} of B: a later row of the same configuration, source and place counts instead\n",
               counted(comparison.repeated_in_a, "row"), counted(comparison.repeated_in_b, "row"));
  ReportFacts facts;
  facts.comparison = comparison_fact(a, b, comparison.rows);
  page.write({a, b}, facts);
  return 0;
}

}  // namespace shardbench
