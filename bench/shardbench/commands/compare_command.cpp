#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "harness/config/field_text.hpp"
#include "harness/report/comparison.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// --fail-above as a ratio; nothing where it was not given. Throws InputError.
std::optional<double> most_ratio(Arguments const& arguments) {
  if (!arguments.has("fail-above")) return std::nullopt;
  std::string text = arguments.option("fail-above");
  if (text.ends_with("%")) text.pop_back();
  constexpr double most_percent = 1e6;
  return 1 + parse_number("fail-above", text, 0, most_percent) / 100;
}

/// How many configurations took longer in B than allowed, said; the exit code.
int verdict(Comparison const& comparison, double ratio) {
  double const percent = 100 * (ratio - 1);
  if (comparison.rows.empty()) {
    fmt::print("--fail-above {:g}%: nothing was compared\n", percent);
    return 1;
  }
  auto const slower = std::ranges::count_if(comparison.rows, [&](ComparedRow const& r) { return r.ratio > ratio; });
  fmt::print("--fail-above {:g}%: {} of {} configurations take longer by more\n", percent, slower,
             comparison.rows.size());
  return slower > 0 ? 1 : 0;
}

}  // namespace

int compare_command(Arguments const& arguments) {
  std::string const &a = arguments.files[0], &b = arguments.files[1];
  ReportPage const page(arguments);
  std::optional<double> const allowed = most_ratio(arguments);
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
  return allowed ? verdict(comparison, *allowed) : 0;
}

}  // namespace shardbench
