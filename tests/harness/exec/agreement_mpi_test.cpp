#include <gtest/gtest.h>

#include <algorithm>

#include "harness/exec/agreement.hpp"

namespace shardbench {
namespace {

class AgreementTest : public testing::Test {
 protected:
  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  std::unique_ptr<Communicator> ranks_ = make_mpi_communicator();
  Agreement agreement_{*ranks_};
};

TEST_F(AgreementTest, Numbers) {
  double const n = size();
  EXPECT_EQ(agreement_.sum(rank() + 1), n * (n + 1) / 2);
  EXPECT_EQ(agreement_.maximum(-rank()), 0);
  EXPECT_EQ(agreement_.mean(rank()), (n - 1) / 2);
  EXPECT_EQ(agreement_.from_first(10.0 + rank()), 10);
}

TEST_F(AgreementTest, TheLowestRankWithATextSpeaks) {
  EXPECT_EQ(agreement_.first_text(""), "");
  EXPECT_EQ(agreement_.first_text(rank() >= 1 ? "rank " + std::to_string(rank()) : ""), "rank 1");
  EXPECT_EQ(agreement_.first_text(std::string(1000, 'x')), std::string(400, 'x'));
}

TEST_F(AgreementTest, TextsOfEachAndOfTheFirst) {
  std::string const mine(static_cast<std::size_t>(rank()) * 3, 'a');
  EXPECT_EQ(agreement_.from_first("from " + std::to_string(rank())), "from 0");
  EXPECT_EQ(agreement_.from_first(rank() == 0 ? "" : "ignored"), "");
  std::vector<std::string> const all = agreement_.gather(mine);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(size()));
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(3 * r, 'a'));
}

}  // namespace
}  // namespace shardbench
