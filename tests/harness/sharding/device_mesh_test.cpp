#include "harness/sharding/device_mesh.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

DeviceMesh mesh() { return DeviceMesh({{"tp", 3}, {"cp", 2}, {"dp", 4}, {"pp", 2}}); }

TEST(DeviceMesh, FirstAxisIsFastest) {
  DeviceMesh const m = mesh();
  EXPECT_EQ(m.num_ranks(), 48);
  EXPECT_EQ(m.coordinate_of(0), (std::vector<std::int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(m.coordinate_of(1), (std::vector<std::int64_t>{1, 0, 0, 0}));
  EXPECT_EQ(m.coordinate_of(3), (std::vector<std::int64_t>{0, 1, 0, 0}));
  EXPECT_EQ(m.coordinate_of(6), (std::vector<std::int64_t>{0, 0, 1, 0}));
  EXPECT_EQ(m.coordinate_of(24), (std::vector<std::int64_t>{0, 0, 0, 1}));
  for (std::int64_t r = 0; r < m.num_ranks(); ++r) EXPECT_EQ(m.rank_at(m.coordinate_of(r)), r);
  EXPECT_EQ(m.size_of("dp"), 4);
}

TEST(DeviceMesh, GroupsPartitionTheRanks) {
  DeviceMesh const m = mesh();
  for (std::vector<std::string> const& axes :
       {std::vector<std::string>{"tp"}, {"pp"}, {"cp", "dp"}, {"tp", "pp"}, {}, {"tp", "cp", "dp", "pp"}}) {
    std::int64_t size = 1;
    for (auto const& a : axes) size *= m.size_of(a);
    std::set<std::vector<std::int64_t>> groups;
    std::set<std::int64_t> covered;
    for (std::int64_t r = 0; r < m.num_ranks(); ++r) {
      auto const g = m.group_of(r, axes);
      EXPECT_EQ(static_cast<std::int64_t>(g.size()), size);
      EXPECT_TRUE(std::is_sorted(g.begin(), g.end()));
      EXPECT_TRUE(std::find(g.begin(), g.end(), r) != g.end());
      for (std::int64_t const other : g) EXPECT_EQ(m.group_of(other, axes), g);
      groups.insert(g);
      covered.insert(g.begin(), g.end());
    }
    EXPECT_EQ(static_cast<std::int64_t>(groups.size()) * size, m.num_ranks());
    EXPECT_EQ(static_cast<std::int64_t>(covered.size()), m.num_ranks());
  }
  EXPECT_EQ(m.group_of(4, {"tp"}), (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(m.group_of(4, {"pp"}), (std::vector<std::int64_t>{4, 28}));
}

TEST(DeviceMesh, Refuses) {
  EXPECT_THROW(DeviceMesh({{"tp", 0}}), Error);
  EXPECT_THROW(DeviceMesh({{"tp", 2}, {"tp", 2}}), Error);
  EXPECT_THROW(mesh().coordinate_of(48), Error);
  EXPECT_THROW(mesh().coordinate_of(-1), Error);
  EXPECT_THROW(mesh().group_of(0, {"ep"}), Error);
}

}  // namespace
}  // namespace shardbench
