#include "harness/calibrate/text_input.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace shardbench {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

using Texts = std::vector<std::string>;

TEST(TextInput, LinesEndWithOrWithoutABreak) {
  EXPECT_EQ(lines_of("a\nb\n"), (Texts{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), (Texts{"a", "b"}));
  EXPECT_EQ(lines_of("\n\nc"), (Texts{"", "", "c"}));
  EXPECT_EQ(lines_of("\n"), Texts{""});
  EXPECT_EQ(lines_of(""), Texts{});
}

TEST(TextInput, EmptyPartsCount) {
  Texts parts;
  each_part("1,,2,", ',', [&](std::string_view part) { parts.emplace_back(part); });
  EXPECT_EQ(parts, (Texts{"1", "", "2", ""}));
}

TEST(TextInput, ANumberIsTheWholeText) {
  EXPECT_EQ(parsed<std::int64_t>("-12"), -12);
  EXPECT_EQ(parsed<double>("2.5e1"), 25);
  for (std::string_view const text : {"", " 1", "1 ", "1x", "+1", "99999999999999999999"})
    EXPECT_FALSE(parsed<std::int64_t>(text)) << text;
}

}  // namespace
}  // namespace shardbench
