#include "harness/config/knob.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/harness/config/knob_values.hpp"

namespace shardbench {
namespace {

// A new member does not pass until it has a row, nor a row without a member.
TEST(Knobs, EveryMemberIsARow) {
  // Cut and model have members of their own; what was given is no value; streams belong to the reference of a check.
  constexpr std::size_t members = test::member_count<Experiment>() - 3 + test::member_count<Cut>() - 1;
  EXPECT_EQ(knobs().size(), members) << "a member of Experiment or Cut without a row, or a row without a member";
}

TEST(Knobs, EveryRowIsComplete) {
  std::set<std::string_view> flags, columns;
  for (Knob const& knob : knobs()) {
    EXPECT_TRUE(flags.insert(knob.flag).second) << knob.flag;
    EXPECT_FALSE(knob.allowed.empty()) << knob.flag;
    EXPECT_FALSE(knob.help.empty()) << knob.flag;
    EXPECT_EQ(knob.help.find('\n'), std::string::npos) << knob.flag;
    EXPECT_FALSE(test::other_values(knob).empty()) << knob.flag << " takes no value that tests/harness/config tries";
    EXPECT_TRUE(knob.only_runs || !knob.only_gpu) << knob.flag << ": what a GPU honours is of runs";
    KnobColumn const& column = knob.column;
    if (column.name.empty()) {
      EXPECT_TRUE(knob.only_runs) << knob.flag << " changes the step and has no column";
      continue;
    }
    EXPECT_TRUE(columns.insert(column.name).second) << column.name;
    EXPECT_TRUE(column.group == "what" || column.group == "cut") << knob.flag;
    EXPECT_FALSE(column.description.empty()) << knob.flag;
    ASSERT_TRUE(column.cell) << knob.flag;
  }
}

TEST(Knobs, EveryOneReadsItsOwnText) {
  Experiment all;
  for (Knob const& knob : knobs()) {
    for (std::string const& value : test::other_values(knob)) {
      set_field(all, knob.flag, value);
      Experiment copy;
      set_field(copy, knob.flag, knob.get(all));
      EXPECT_EQ(knob.get(copy), knob.get(all)) << knob.flag;
    }
  }
  Experiment back;
  for (Knob const& knob : knobs()) set_field(back, knob.flag, knob.get(all));
  EXPECT_EQ(command_flags(back), command_flags(all)) << "two knobs share a member";
}

TEST(Knobs, EachLineOfTheListHasItsSource) {
  std::size_t expected = 0;
  for (Knob const& knob : knobs()) expected += knob.sources.size();
  EXPECT_EQ(knob_sources().size(), expected);
  std::set<std::string_view> names;
  for (KnobSource const& line : knob_sources()) {
    EXPECT_TRUE(names.insert(line.name).second) << line.name;
    EXPECT_TRUE(line.usage.starts_with("--")) << line.name;
    EXPECT_FALSE(line.what.empty() || line.source.empty()) << line.name;
  }
}

TEST(CutText, SaysWhatTheCutDoes) {
  EXPECT_EQ(to_string(Cut{}), "");
  Cut c;
  c.tp = 8, c.pp = 4, c.schedule = ScheduleKind::zb_h1, c.zero_stage = 1, c.sequence_parallel = true;
  c.recompute = Recompute::full, c.tp_overlap = TpOverlap::chunked;
  EXPECT_EQ(to_string(c), "tp 8, pp 4, zb-h1, zero 1, sp, tp overlap, recompute full");
  EXPECT_EQ(ranks_text(c), "32 ranks = dp 1 x tp 8 x pp 4 x cp 1");
  c = Cut{};
  c.tp = 2, c.cp = 3, c.dp = 4, c.pp = 5, c.ep = 6, c.etp = 7, c.vpp = 8;
  EXPECT_EQ(to_string(c), "tp 2, pp 5, dp 4, cp 3, ep 6, etp 7, vpp 8");
  for (auto const& [name, degree] : named_degrees(c))
    for (Axis const axis : enum_values<Axis>())
      if (name == to_string(axis)) {
        EXPECT_EQ(c.degree(axis), degree) << name;
      }
  EXPECT_EQ(ranks_text(Cut{}), "1 rank = dp 1 x tp 1 x pp 1 x cp 1");
}

}  // namespace
}  // namespace shardbench
