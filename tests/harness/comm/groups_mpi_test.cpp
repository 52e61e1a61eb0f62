#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/comm/verify.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"
#include "tests/harness/comm/backends.hpp"

namespace shardbench::test {
namespace {

// Under either, and every rank of a job sees the same.
using Bf16Sums = EachBackend;
using Split = EachBackend;
using Concurrency = EachBackend;
using Errors = EachBackend;
using Verification = EachBackend;

TEST_P(Bf16Sums, RoundAfterEachAdditionToNearestEven) {
  InlineStream stream;
  auto const n = static_cast<std::size_t>(world->size());
  std::vector<Bf16> values(997);
  double exact_bound = static_cast<double>(n - 1) * unit_roundoff(Dtype::bf16) * 1.01;
  auto const term = [](int rank, std::size_t i) {
    return to_bf16(1.0f + static_cast<float>((i * 37 + static_cast<std::size_t>(rank) * 11) % 128) / 128.0f);
  };
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = term(world->rank(), i);
  world->all_reduce({values.data(), values.size(), Dtype::bf16}, ReduceOp::sum, stream);
  for (std::size_t i = 0; i < values.size(); ++i) {
    double exact = 0;
    for (int r = 0; r < world->size(); ++r) exact += to_float(term(r, i));
    ASSERT_LE(std::abs(to_float(values[i]) - exact), exact_bound * exact) << i;
  }
  std::vector<float> widened(values.size()), first(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) first[i] = widened[i] = to_float(values[i]);
  world->broadcast({first.data(), first.size(), Dtype::f32}, 0, stream);
  EXPECT_EQ(widened, first) << "every rank holds the same bits";
}

TEST_P(Bf16Sums, InfinityAndNanSpread) {
  InlineStream stream;
  bool const last = world->rank() == world->size() - 1;
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    std::vector<Bf16> values{to_bf16(last ? INFINITY : 1.0f), to_bf16(last ? NAN : 1.0f)};
    world->all_reduce({values.data(), 2, Dtype::bf16}, op, stream);
    EXPECT_TRUE(std::isinf(to_float(values[0])));
    EXPECT_TRUE(std::isnan(to_float(values[1])));
  }
}

TEST_P(Split, GroupsAreOrderedByKeyAndNegativeColorsLeave) {
  InlineStream stream;
  int const rank = world->rank(), size = world->size();
  auto reversed = world->split(rank % 2, size - rank);
  ASSERT_NE(reversed, nullptr);
  EXPECT_EQ(reversed->size(), (size + 1 - rank % 2) / 2);
  float value = static_cast<float>(rank);
  std::vector<float> members(static_cast<std::size_t>(reversed->size()));
  reversed->all_gather({&value, 1, Dtype::f32}, {members.data(), members.size(), Dtype::f32}, stream);
  for (std::size_t i = 1; i < members.size(); ++i)
    EXPECT_EQ(members[i], members[i - 1] - 2) << "higher ranks come first";
  EXPECT_EQ(reversed->traffic().calls, 1u);
  EXPECT_EQ(world->traffic().calls, 0u) << "each communicator counts for itself";

  auto first_only = world->split(rank == 0 ? 0 : -1, 0);
  EXPECT_EQ(first_only != nullptr, rank == 0);
  if (first_only) {
    EXPECT_EQ(first_only->size(), 1);
  }
}

TEST_P(Concurrency, TwoCommunicatorsFromTwoThreads) {
  auto a = world->split(0, world->rank()), b = world->split(0, world->rank());
  auto const work = [](Communicator& group, std::size_t count, std::atomic<int>& wrong) {
    InlineStream stream;
    for (int round = 0; round < 50; ++round) {
      std::vector<float> values(count, static_cast<float>(group.rank() + round));
      group.all_reduce({values.data(), count, Dtype::f32}, ReduceOp::sum, stream);
      float const expected = static_cast<float>(group.size() * round + group.size() * (group.size() - 1) / 2);
      for (float v : values) wrong += v != expected;
    }
  };
  std::atomic<int> wrong{0};
  std::thread other([&] { work(*b, 5000, wrong); });
  work(*a, 300, wrong);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Concurrency, MessagesOfManyTagsOnOneCommunicator) {
  int const size = world->size(), above = (world->rank() + 1) % size, below = (world->rank() + size - 1) % size;
  constexpr int tags = 4, rounds = 10;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int tag = 0; tag < tags; ++tag) {
    auto const count = static_cast<std::size_t>(1 + tag * 5000);
    threads.emplace_back([&, tag, count] {
      InlineStream stream;
      for (int round = 0; round < rounds; ++round) {
        std::vector<std::int32_t> out(count, world->rank() * 1000 + tag * 100 + round);
        world->send({out.data(), count, Dtype::i32}, above, tag, stream);
      }
    });
    threads.emplace_back([&, tag, count] {
      InlineStream stream;
      for (int round = 0; round < rounds; ++round) {
        std::vector<std::int32_t> in(count);
        world->receive({in.data(), count, Dtype::i32}, below, tag, stream);
        for (auto v : in) wrong += v != below * 1000 + tag * 100 + round;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(world->traffic().calls, 2u * tags * rounds);
}

TEST_P(Errors, BadCallsThrowInsteadOfEndingTheJob) {
  InlineStream stream;
  auto const n = static_cast<std::size_t>(world->size());
  std::vector<float> values(4 * n);
  BufferView const whole{values.data(), values.size(), Dtype::f32};
  EXPECT_THROW(world->broadcast(whole, world->size(), stream), Error);
  EXPECT_THROW(world->send(whole, world->size(), 0, stream), Error);
  EXPECT_THROW(world->send(whole, 0, -5, stream), Error);
  EXPECT_THROW(world->reduce_scatter(whole, {values.data(), 3, Dtype::f32}, stream), Error);
  EXPECT_THROW(world->all_gather({values.data(), 4, Dtype::bf16}, whole, stream), Error);
  EXPECT_THROW(world->all_gather({values.data() + 1, 4, Dtype::f32}, whole, stream), Error) << "partial overlap";
  EXPECT_THROW(world->all_to_all(whole, std::vector<std::size_t>(n, 3), whole, std::vector<std::size_t>(n, 4), stream),
               Error);
  EXPECT_THROW(make_mpi_communicator(0), Error);
}

TEST_P(Errors, AMessageOfAnotherLengthIsNoticed) {
  InlineStream stream;
  std::vector<float> values(8);
  if (world->rank() == 0) {
    world->send({values.data(), 3, Dtype::f32}, 1, 1, stream);
    world->send({values.data(), 8, Dtype::f32}, 1, 2, stream);
  } else if (world->rank() == 1) {
    EXPECT_THROW(world->receive({values.data(), 8, Dtype::f32}, 0, 1, stream), Error) << "shorter";
    EXPECT_THROW(world->receive({values.data(), 3, Dtype::f32}, 0, 2, stream), Error) << "longer";
  }
  world->barrier();
}

TEST_P(Verification, FirstDifferenceIsNamedOnEveryRank) {
  CollectiveSignature const same{"all_reduce", 1024, 7, 3};
  EXPECT_NO_THROW(verify_same_call(*world, same));
  bool const odd_one = world->rank() == world->size() - 1;
  auto const message = [&](CollectiveSignature const& other) -> std::string {
    try {
      verify_same_call(*world, odd_one ? other : same);
    } catch (Error const& error) {
      return error.what();
    }
    return "no error";
  };
  auto const expected = [&](std::string_view difference) {
    return fmt::format("collectives differ: rank {} calls with {}", world->size() - 1, difference);
  };
  EXPECT_EQ(message({"all_gather", 1024, 7, 3}), expected("kind all_gather, rank 0 with all_reduce"));
  EXPECT_EQ(message({"all_reduce", 1028, 7, 3}), expected("bytes 1028, rank 0 with 1024"));
  EXPECT_EQ(message({"all_reduce", 1024, 8, 3}), expected("group 8, rank 0 with 7"));
  EXPECT_EQ(message({"all_reduce", 1024, 7, 4}), expected("order 4, rank 0 with 3"));
}

INSTANTIATE_TEST_SUITE_P(Over, Bf16Sums, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Split, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Concurrency, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Errors, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Verification, testing::Values(Backend::mpi, Backend::tcp), backend_name);

}  // namespace
}  // namespace shardbench::test
