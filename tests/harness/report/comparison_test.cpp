#include "harness/report/comparison.hpp"

#include <gtest/gtest.h>

#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

ReportRow row_of(std::int64_t tp, Source source, std::optional<double> step_ms) {
  ReportRow row;
  row.experiment.model_name = "tiny";
  row.experiment.parallel.tp = tp;
  row.source = source;
  row.step_ms_p50 = step_ms;
  return row;
}

CsvTable table_of(std::vector<ReportRow> const& rows) {
  std::string text = csv_line(header_of(report_columns()));
  for (auto const& row : rows) text += csv_line(cells_of(report_columns(), row));
  return parse_csv(text, "t");
}

TEST(Comparison, JoinsByConfigurationAndGivesRatios) {
  auto const a =
      table_of({row_of(1, Source::measured, 10), row_of(2, Source::measured, 6), row_of(4, Source::measured, 3)});
  auto const b = table_of({row_of(8, Source::measured, 1), row_of(2, Source::measured, 9),
                           row_of(1, Source::measured, 5), row_of(4, Source::measured, {})});
  auto const result = compare(a, b);
  ASSERT_EQ(result.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(result.rows[0].ratio, 0.5);
  EXPECT_DOUBLE_EQ(result.rows[1].ratio, 1.5);
  EXPECT_EQ(result.only_in_a, 1u) << "tp 4 has no time in b";
  EXPECT_EQ(result.only_in_b, 1u) << "tp 8";
  EXPECT_EQ(result.rows[1].configuration, "tiny ranks=2 tp=2");
}

TEST(Comparison, OfSeveralRowsTheLastCounts) {
  auto const a = table_of({row_of(1, Source::measured, 10), row_of(1, Source::measured, 20)});
  auto const result = compare(a, a);
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(result.rows[0].step_ms_a, 20);
  EXPECT_EQ(result.rows[0].configuration, "tiny");
}

TEST(Comparison, SameSourcesArePreferredElseAllArePaired) {
  auto const both = table_of({row_of(1, Source::measured, 10), row_of(1, Source::simulated, 11)});
  auto const simulated = table_of({row_of(1, Source::simulated, 22)});
  auto const planned = table_of({row_of(1, Source::planned, 20)});
  auto const same = compare(both, simulated);
  ASSERT_EQ(same.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(same.rows[0].ratio, 2);
  auto const all = compare(both, planned);
  ASSERT_EQ(all.rows.size(), 2u);
  EXPECT_EQ(all.rows[0].source_a, "measured");
  EXPECT_EQ(all.rows[1].source_a, "simulated");
  EXPECT_EQ(all.rows[1].source_b, "planned");
}

TEST(Comparison, KeysOfARowAndOfItsFileAgree) {
  auto const row = row_of(2, Source::measured, 1);
  EXPECT_EQ(configuration_key(row), configuration_key(table_of({row}), 0));
  EXPECT_NE(configuration_key(row), configuration_key(row_of(4, Source::measured, 1)));
  EXPECT_EQ(configuration_key(row), configuration_key(row_of(2, Source::planned, 7))) << "results are no part of it";
}

TEST(Comparison, BadFilesAreRefused) {
  EXPECT_THROW(compare(parse_csv("a\n1\n", "t"), parse_csv("a\n1\n", "t")), InputError);
  auto table = table_of({row_of(1, Source::measured, 10)});
  for (char const* value : {"0", "-1", "nan", "inf", "1x", "x"}) {
    table.rows[0][table.column("step_ms_p50")] = value;
    EXPECT_THROW(compare(table, table), InputError) << value;
  }
}

}  // namespace
}  // namespace shardbench
