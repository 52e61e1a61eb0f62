#include "harness/report/comparison.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "harness/config/knob.hpp"
#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/config/knob_values.hpp"

namespace shardbench {
namespace {

ReportRow row_of(std::int64_t tp, Source source, std::optional<double> step_ms) {
  ReportRow row;
  row.experiment.model_name = "tiny";
  row.experiment.cut.tp = tp;
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

/// A value of a knob that is not the default, and what has to be set around it.
struct KnobSample {
  std::string flag, value;
  std::vector<std::pair<char const*, char const*>> around;
};

/// Steps in which a knob may do something; the first is every knob's own.
std::vector<std::vector<std::pair<char const*, char const*>>> const surroundings{
    {},
    {{"dp", "2"}},
    {{"tp", "2"}},
    {{"pp", "2"}},
    {{"cp", "2"}},
    {{"pp", "2"}, {"global-batch", "4"}},
    {{"dp", "4"}, {"zero", "1"}},
    {{"dp", "2"}, {"zero", "3"}},
    {{"tp", "2"}, {"tp-overlap", "chunked"}},
    {{"recompute", "full"}},
    {{"phase", "decode"}},
    {{"model", "vit-l"}},
    {{"model", "mixtral-8x7b"}},
    {{"model", "mixtral-8x7b"}, {"dp", "2"}},
    {{"model", "mixtral-8x7b"}, {"tp", "2"}},
    {{"model", "deepseek-v3"}},
    {{"model", "deepseek-v3"}, {"mtp", "1"}},
};

ReportRow resolved_row(KnobSample const& sample, bool with_it) {
  ReportRow row;
  for (auto const& [flag, value] : sample.around) set_field(row.experiment, flag, value);
  if (with_it) set_field(row.experiment, sample.flag, sample.value);
  resolve(row.experiment);
  row.command = "shardbench run " + command_flags(row.experiment);
  row.step_ms_p50 = 1;
  return row;
}

/// Whether the sample is legal and its row another one than without it.
bool tells_apart(KnobSample const& sample) {
  try {
    return configuration_key(resolved_row(sample, true)) != configuration_key(resolved_row(sample, false));
  } catch (InputError const&) {
    return false;
  }
}

/// The first value and surroundings that tell rows apart.
std::optional<KnobSample> sample_of(Knob const& knob) {
  for (auto const& around : surroundings)
    for (std::string const& value : test::other_values(knob))
      if (KnobSample sample{knob.flag, value, around}; tells_apart(sample)) return sample;
  return std::nullopt;
}

/// A sample of every knob that changes what a row is; the number of ranks follows from the cut.
std::vector<KnobSample> const& knob_samples() {
  static std::vector<KnobSample> const samples = [] {
    std::vector<KnobSample> all;
    for (Knob const& knob : knobs()) {
      if (knob.column.name.empty() || knob.flag == "ranks") continue;
      std::optional<KnobSample> const sample = sample_of(knob);
      EXPECT_TRUE(sample) << knob.flag << " changes no column, with nothing of `surroundings` around it";
      if (sample) all.push_back(*sample);
    }
    return all;
  }();
  return samples;
}

TEST(Comparison, EveryKnobThatChangesTheStepTellsRowsApart) { EXPECT_GE(knob_samples().size(), 40u); }

/// The file without the columns that came later, as it was written before them.
CsvTable aged(CsvTable table) {
  std::size_t const width = table.column("zero_keep");
  table.header.resize(width);
  for (CsvRecord& cells : table.rows) cells.resize(width);
  return table;
}

TEST(Comparison, OfAnOlderFileTheCommandTellsWhatHadNoColumn) {
  for (KnobSample const& sample : knob_samples()) {
    auto const given = resolved_row(sample, true), plain = resolved_row(sample, false);
    auto const file = table_of({given, plain});
    for (std::size_t row : {0u, 1u})
      EXPECT_EQ(configuration_key(aged(file), row), configuration_key(file, row)) << sample.flag;
    EXPECT_EQ(compare(aged(file), file).rows.size(), 2u) << sample.flag;
  }
  auto foreign = aged(table_of({row_of(2, Source::measured, 3)}));
  foreign.rows[0][foreign.column("command")] = "torchrun train.py --dp x";
  EXPECT_EQ(compare(foreign, table_of({row_of(2, Source::measured, 6)})).rows.size(), 1u);
}

TEST(Comparison, WhatOnlyAnExecutionKnowsIsNotAskedOfAPrediction) {
  auto measured = row_of(2, Source::measured, 10), other = measured;
  other.experiment.seed = 7;
  auto const simulated = row_of(2, Source::simulated, 5);
  EXPECT_EQ(compare(table_of({measured, other}), table_of({measured, other})).rows.size(), 2u);
  EXPECT_EQ(compare(table_of({measured}), table_of({other})).rows.size(), 0u);
  EXPECT_EQ(compare(table_of({other}), table_of({simulated})).rows.size(), 1u);
}

TEST(Comparison, RowsOfTwoSystemsInOneFileAreBothKept) {
  auto h100 = row_of(2, Source::simulated, 10), b200 = row_of(2, Source::simulated, 4);
  h100.system = "h100-sxm", b200.system = "b200";
  auto const both = compare(table_of({h100, b200}), table_of({h100, b200}));
  ASSERT_EQ(both.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(both.rows[0].ratio, 1);
  EXPECT_EQ(both.rows[0].configuration, "tiny system=h100-sxm");
  auto const across = compare(table_of({h100}), table_of({b200}));
  ASSERT_EQ(across.rows.size(), 1u) << "one system against another is what files are compared for";
  EXPECT_DOUBLE_EQ(across.rows[0].ratio, 0.4);
}

TEST(Comparison, WhatIsLeftOutIsCounted) {
  auto const a =
      table_of({row_of(1, Source::measured, 10), row_of(1, Source::measured, 20), row_of(2, Source::measured, {})});
  auto const result = compare(a, table_of({row_of(1, Source::measured, 5)}));
  EXPECT_EQ(result.repeated_in_a, 1u);
  EXPECT_EQ(result.repeated_in_b, 0u);
  EXPECT_EQ(result.without_time, 1u);
  auto wrong = row_of(1, Source::measured, 5);
  wrong.outcome = Outcome::incorrect;
  EXPECT_EQ(compare(a, table_of({wrong})).rows[0].configuration, "tiny (B: incorrect)");
}

TEST(Comparison, BadFilesAreRefused) {
  for (char const* column : {"outcome", "source"}) {
    auto table = table_of({row_of(1, Source::measured, 10)});
    table.rows[0][table.column(column)] = "passd";
    EXPECT_THROW(compare(table, table), InputError) << column;
  }
  EXPECT_THROW(compare(parse_csv("a\n1\n", "t"), parse_csv("a\n1\n", "t")), InputError);
  auto table = table_of({row_of(1, Source::measured, 10)});
  for (char const* value : {"0", "-1", "nan", "inf", "1x", "x"}) {
    table.rows[0][table.column("step_ms_p50")] = value;
    EXPECT_THROW(compare(table, table), InputError) << value;
  }
}

}  // namespace
}  // namespace shardbench
