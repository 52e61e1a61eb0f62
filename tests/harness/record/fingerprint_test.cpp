#include "harness/record/fingerprint.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>

namespace shardbench {
namespace {

namespace fs = std::filesystem;

TEST(Fingerprint, DescribesThisProcess) {
  auto const f = take_fingerprint("OpenBLAS Zen", "Open MPI v4");
  EXPECT_FALSE(f.host.empty());
  EXPECT_TRUE(std::regex_match(f.time_utc, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"))) << f.time_utc;
  EXPECT_TRUE(f.versions().ends_with("; OpenBLAS Zen; Open MPI v4")) << f.versions();
  EXPECT_EQ(f.versions().find('\n'), std::string::npos);
}

TEST(Fingerprint, CountsTheCoresThisProcessMayUse) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(take_fingerprint("", "").cores, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(take_fingerprint("", "").cores, 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Fingerprint, ReportsVariablesThatChangeSpeed) {
  setenv("NCCL_P2P_LEVEL", "LOC", 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  setenv("SHARDBENCH_UNRELATED", "x", 1);
  std::string const text = take_fingerprint("", "").variables_text();
  EXPECT_NE(text.find("NCCL_P2P_LEVEL=LOC"), std::string::npos) << text;
  EXPECT_NE(text.find("OMP_NUM_THREADS=3"), std::string::npos) << text;
  EXPECT_EQ(text.find("SHARDBENCH_UNRELATED"), std::string::npos) << text;
  unsetenv("NCCL_P2P_LEVEL");
  unsetenv("OMP_NUM_THREADS");
}

class GitTree : public testing::Test {
 protected:
  void SetUp() override {
    tree_ = fs::temp_directory_path() / ("shardbench-git-" + std::to_string(getpid()));
    fs::create_directories(tree_ / ".git/refs/heads");
  }
  void TearDown() override { fs::remove_all(tree_); }
  void put(fs::path const& path, std::string const& text) const {
    fs::create_directories((tree_ / path).parent_path());
    std::ofstream(tree_ / path) << text;
  }
  fs::path tree_;
  std::string const commit_ = "0123456789abcdef0123456789abcdef01234567";
};

TEST_F(GitTree, NoneWithoutARepository) {
  EXPECT_EQ(read_git_commit(tree_), "") << "no HEAD";
  EXPECT_EQ(read_git_commit(tree_ / "missing"), "");
  EXPECT_EQ(read_git_commit({}), "");
}

TEST_F(GitTree, DetachedBranchAndPacked) {
  put(".git/HEAD", commit_ + "\n");
  EXPECT_EQ(read_git_commit(tree_), commit_);
  put(".git/HEAD", "ref: refs/heads/main\n");
  EXPECT_EQ(read_git_commit(tree_), "") << "a branch without a commit";
  put(".git/packed-refs", "# pack-refs with: peeled\n" + commit_ + " refs/heads/main\n");
  EXPECT_EQ(read_git_commit(tree_), commit_);
  std::string const newer(40, 'a');
  put(".git/refs/heads/main", newer + "\n");
  EXPECT_EQ(read_git_commit(tree_), newer) << "a loose reference wins over a packed one";
}

TEST_F(GitTree, Worktree) {
  put(".git/worktrees/w/HEAD", "ref: refs/heads/side\n");
  put(".git/worktrees/w/commondir", "../..\n");
  put(".git/refs/heads/side", commit_ + "\n");
  put("w/.git", "gitdir: " + (tree_ / ".git/worktrees/w").string() + "\n");
  EXPECT_EQ(read_git_commit(tree_ / "w"), commit_);
}

TEST_F(GitTree, GarbageIsNoCommit) {
  put(".git/HEAD", "ref: refs/heads/main\n");
  put(".git/refs/heads/main", "not a commit\n");
  EXPECT_EQ(read_git_commit(tree_), "");
}

}  // namespace
}  // namespace shardbench
