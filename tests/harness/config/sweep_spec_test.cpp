#include <gtest/gtest.h>

#include <filesystem>

#include "harness/config/experiment.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;

std::string refusal(std::string const& yaml) {
  try {
    parse_sweep_spec(yaml, "s.yaml");
  } catch (InputError const& error) {
    return error.what();
  }
  return "";
}

TEST(SplitList, EmptyItemsAreRefused) {
  EXPECT_EQ(split_list("tp", "1,2,4"), (std::vector<std::string>{"1", "2", "4"}));
  EXPECT_EQ(split_list("tp", "1"), (std::vector<std::string>{"1"}));
  for (char const* text : {"", ",", "1,", ",1", "1,,2"}) EXPECT_THROW(split_list("tp", text), InputError) << text;
}

TEST(Expand, LastAxisIsFastest) {
  SweepLists const lists{{{"dp", {"1", "2"}}, {"tp", {"1", "4"}}}};
  std::vector<std::pair<std::int64_t, std::int64_t>> seen;
  for (Experiment const& e : expand({}, lists)) seen.emplace_back(e.cut.dp, e.cut.tp);
  EXPECT_EQ(seen, (std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 4}, {2, 1}, {2, 4}}));
  EXPECT_EQ(expand({}, {}).size(), 1u);
}

TEST(Expand, RefusesHugeSweepsAndBadValues) {
  std::vector<std::string> const many(1000, "1");
  EXPECT_THROW(expand({}, {{{"dp", many}, {"tp", many}}}), InputError);
  EXPECT_THROW(expand({}, {{{"dp", {}}}}), InputError);
  EXPECT_THROW(expand({}, {{{"dp", {"x"}}}}), InputError);
}

TEST(SweepSpec, ScalarsAndLists) {
  SweepSpec const spec = parse_sweep_spec(
      "model: smollm-360m\nlayers: 2\ncheck: true\ntp: [1, 5]\nsequence-parallel: [false, true]\n", "s.yaml");
  EXPECT_EQ(spec.base.model_name, "smollm-360m");
  EXPECT_EQ(spec.base.layers, 2);
  EXPECT_TRUE(spec.base.check);
  ASSERT_EQ(spec.lists.of.size(), 2u);
  EXPECT_EQ(spec.lists.of[0].first, "tp");
  EXPECT_EQ(expand(spec.base, spec.lists).size(), 4u);
}

TEST(SweepSpec, ErrorsNameTheLine) {
  std::pair<char const*, char const*> const cases[] = {
      {"model: gpt2\ntpp: 2\n", "s.yaml:2: --tpp: unknown flag, did you mean --tp?"},
      {"tp: 2\n\ntp: [1]\n", "s.yaml:3: 'tp' is given twice"},
      {"tp: [1,\n  2x]\n", "s.yaml:2: --tp: '2x' is not an integer >= 1"},
      {"tp: []\n", "s.yaml:1: 'tp' is an empty list"},
      {"tp: {a: 1}\n", "s.yaml:1: 'tp' is neither a value nor a list"},
      {"tp: [[1]]\n", "s.yaml:1: 'tp' holds something"},
      {"dp: 1\ntp:\n", "s.yaml:2: 'tp' is neither a value nor a list"},
      {"- tp\n", "s.yaml:1: a sweep is a map"},
      {"", "a sweep is a map"},
      {"tp: [1\n", "not YAML"},
      {"a: *b\n", "not YAML"},
      {"<<: {tp: 1}\n", "s.yaml:1:"},
      {"? [1]\n: 2\n", "s.yaml:1: a key is not the name of a flag"}};
  for (auto const& [yaml, part] : cases) {
    std::string const message = refusal(yaml);
    EXPECT_TRUE(contains(message, part)) << yaml << " -> " << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
  }
  EXPECT_THROW(read_sweep_spec("/nowhere.yaml"), InputError);
}

TEST(SweepSpec, ShippedExperimentsHaveLegalPoints) {
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(SHARDBENCH_SOURCE_DIR "/bench/experiments")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    SweepSpec const spec = read_sweep_spec(entry.path().string());
    int legal = 0;
    for (Experiment& point : expand(spec.base, spec.lists)) {
      try {
        resolve(point);
        ++legal;
      } catch (IllegalConfig const&) {
      }
    }
    EXPECT_GE(legal, 2) << entry.path();
  }
  EXPECT_GE(files, 4);
}

}  // namespace
}  // namespace shardbench
