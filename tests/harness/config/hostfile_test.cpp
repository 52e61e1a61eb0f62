#include "harness/config/hostfile.hpp"

#include <gtest/gtest.h>

#include "kernels/core/error.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench {
namespace {

using test::contains;
using test::refusal;

std::string const data = SHARDBENCH_SOURCE_DIR "/tests/data/hostfiles/hostfile_";

TEST(Cases, L02_HostsWithoutCounts) {
  std::string const message = refusal([] { check_slots(parse_host_list("a,b"), 16); });
  EXPECT_TRUE(contains(message, "16 ranks asked for, 2 slots") && contains(message, "a:8,b:8")) << message;
  EXPECT_NO_THROW(check_slots(parse_host_list("a:8,b:8"), 16));
  for (char const* text : {"", "a,,b", "a:0", "a:x", "a,a", ":4", "a:4:4", "u@a,a"})
    EXPECT_THROW(parse_host_list(text), InputError) << text;
}

TEST(Cases, L03_HostfileTypos) {
  std::vector<Host> const hosts = read_hostfile(data + "good.txt");
  EXPECT_EQ(hosts, (std::vector<Host>{{"node-a", 8, 8}, {"node-b", 8, 8}}));
  EXPECT_EQ(total_slots(hosts), 16);
  EXPECT_TRUE(contains(refusal([] { read_hostfile(data + "missing_blank.txt"); }), ".txt:1: 'slots=8max_slots=8'"));
  EXPECT_TRUE(contains(refusal([] { read_hostfile(data + "typo_lots.txt"); }), ".txt:2: 'lots=8' is not slots=N"));
  EXPECT_TRUE(contains(refusal([] { read_hostfile(data + "duplicate_host.txt"); }),
                       ".txt:4: host 'node-a' is already on line 3"));
}

TEST(Hostfile, CommentsBlanksAndDefaults) {
  EXPECT_EQ(parse_hostfile("# head\n\n  n1   # tail\r\nn2 slots=2\tmax-slots=4", "h"),
            (std::vector<Host>{{"n1", 1, 0}, {"n2", 2, 4}}));
  EXPECT_EQ(parse_hostfile("root@single slots=3\n", "h"), (std::vector<Host>{{"single", 3, 0}}));
}

TEST(Hostfile, Refusals) {
  for (char const* text :
       {"", "# only\n", "a slots=\n", "a slots\n", "a slots=-1\n", "a slots=2 slots=2\n", "a slots=4 max_slots=2\n",
        "a slots=99999999999999999999\n", "a;b slots=1\n", "@ slots=1\n", "slots=8\n"})
    EXPECT_EQ(refusal([&] { parse_hostfile(text, "h"); }).find("h:"), 0u) << text;
  EXPECT_THROW(read_hostfile("/nowhere"), InputError);
}

}  // namespace
}  // namespace shardbench
