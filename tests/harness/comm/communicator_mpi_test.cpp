#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "harness/comm/communicator.hpp"
#include "harness/comm/launch_env.hpp"
#include "harness/comm/rendezvous.hpp"
#include "harness/comm/verify.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

// Values of rank `r` at element `i`: small integers, so that sums over ranks are exact in every dtype.
int value_of(int r, std::size_t i) { return (r + 1) * static_cast<int>(1 + i % 5) + static_cast<int>(i % 3); }

// Elements of any dtype, written and read as double.
class Buffer {
 public:
  Buffer(Dtype dtype, std::size_t count)
      : dtype_(dtype), bytes_(count * bytes_of(dtype) + guard, poison), count_(count) {}
  BufferView view() { return {bytes_.data(), count_, dtype_}; }
  BufferView part(std::size_t first, std::size_t count) {
    return {bytes_.data() + first * bytes_of(dtype_), count, dtype_};
  }
  void set(std::size_t i, double value) {
    if (dtype_ == Dtype::f32) put(i, static_cast<float>(value));
    if (dtype_ == Dtype::f64) put(i, value);
    if (dtype_ == Dtype::i32) put(i, static_cast<std::int32_t>(value));
    if (dtype_ == Dtype::bf16) put(i, to_bf16(static_cast<float>(value)));
    if (dtype_ == Dtype::u8) put(i, static_cast<std::uint8_t>(value));
  }
  double get(std::size_t i) const {
    switch (dtype_) {
      case Dtype::f32:
        return take<float>(i);
      case Dtype::f64:
        return take<double>(i);
      case Dtype::i32:
        return take<std::int32_t>(i);
      case Dtype::bf16:
        return to_float(take<Bf16>(i));
      default:
        return take<std::uint8_t>(i);
    }
  }
  bool guard_intact() const {
    return std::all_of(bytes_.end() - guard, bytes_.end(), [](std::byte b) { return b == poison; });
  }

 private:
  template <class T>
  void put(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T take(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  static constexpr std::ptrdiff_t guard = 16;
  static constexpr std::byte poison{0xa5};
  Dtype dtype_;
  std::vector<std::byte> bytes_;
  std::size_t count_;
};

enum class Backend { mpi, tcp };

/// A port that was free a moment ago, rank 0's choice.
int free_port(Communicator& world) {
  int port = 0;
  if (world.rank() == 0) {
    int const probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(probe, any, length) == 0 && ::getsockname(probe, any, &length) == 0) port = ntohs(address.sin_port);
    ::close(probe);
  }
  InlineStream stream;
  world.broadcast({&port, 1, Dtype::i32}, 0, stream);
  return port;
}

/// All ranks of the job, which MPI started, over either.
std::unique_ptr<Communicator> make_world(Backend backend, std::size_t largest_count = largest_mpi_count) {
  auto world = make_mpi_communicator(largest_count);
  if (backend == Backend::mpi) return world;
  return make_tcp_communicator({world->rank(), world->size(), "localhost", free_port(*world)}, 30);
}

class EachBackend : public testing::TestWithParam<Backend> {
 protected:
  std::unique_ptr<Communicator> world = make_world(GetParam());
};

struct Case {
  Dtype dtype;
  std::size_t count;          ///< elements per rank
  std::size_t largest_count;  ///< small: buffers travel in pieces
  Backend backend = Backend::mpi;
};

class Collectives : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    world_ = make_world(GetParam().backend, GetParam().largest_count);
    rank_ = world_->rank();
    size_ = world_->size();
    ranks_ = static_cast<std::size_t>(size_);
  }
  Buffer filled(std::size_t count, int rank) const {
    Buffer buffer(GetParam().dtype, count);
    for (std::size_t i = 0; i < count; ++i) buffer.set(i, value_of(rank, i));
    return buffer;
  }
  double sum_of(std::size_t i) const {
    double sum = 0;
    for (int r = 0; r < size_; ++r) sum += value_of(r, i);
    return sum;
  }
  std::unique_ptr<Communicator> world_;
  InlineStream stream_;
  int rank_ = 0, size_ = 1;
  std::size_t ranks_ = 1;
};

TEST_P(Collectives, AllReduceSumAndMax) {
  auto const [dtype, count, largest, backend] = GetParam();
  if (dtype == Dtype::u8) {
    Buffer buffer = filled(count, rank_);
    EXPECT_THROW(world_->all_reduce(buffer.view(), ReduceOp::sum, stream_), Error);
    return;
  }
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    Buffer buffer = filled(count, rank_);
    world_->all_reduce(buffer.view(), op, stream_);
    for (std::size_t i = 0; i < count; ++i) {
      double largest_value = value_of(0, i);
      for (int r = 1; r < size_; ++r) largest_value = std::max<double>(largest_value, value_of(r, i));
      ASSERT_EQ(buffer.get(i), op == ReduceOp::sum ? sum_of(i) : largest_value) << i;
    }
    EXPECT_TRUE(buffer.guard_intact());
  }
  EXPECT_EQ(world_->traffic().payload_bytes, 2 * count * bytes_of(dtype));
  EXPECT_EQ(world_->traffic().calls, 2u);
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsBlock) {
  auto const [dtype, count, largest, backend] = GetParam();
  if (dtype == Dtype::u8) return;
  Buffer from = filled(count * ranks_, rank_), to(dtype, count);
  world_->reduce_scatter(from.view(), to.view(), stream_);
  std::size_t const first = static_cast<std::size_t>(rank_) * count;
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(to.get(i), sum_of(first + i)) << i;
  EXPECT_TRUE(to.guard_intact());
  for (std::size_t i = 0; i < count * ranks_; ++i)
    ASSERT_EQ(from.get(i), value_of(rank_, i)) << "the input is left alone";
  EXPECT_EQ(world_->traffic().payload_bytes, count * ranks_ * bytes_of(dtype));

  world_->reduce_scatter(from.view(), from.part(first, count), stream_);
  for (std::size_t i = 0; i < count * ranks_; ++i) {
    bool const own = i >= first && i < first + count;
    ASSERT_EQ(from.get(i), own ? sum_of(i) : value_of(rank_, i)) << "in place, element " << i;
  }
}

TEST_P(Collectives, AllGatherKeepsRankOrder) {
  auto const [dtype, count, largest, backend] = GetParam();
  Buffer from = filled(count, rank_), to(dtype, count * ranks_);
  world_->all_gather(from.view(), to.view(), stream_);
  auto const expect_gathered = [&] {
    for (std::size_t r = 0; r < ranks_; ++r)
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(to.get(r * count + i), value_of(static_cast<int>(r), i)) << r;
    EXPECT_TRUE(to.guard_intact());
  };
  expect_gathered();
  EXPECT_EQ(world_->traffic().payload_bytes, count * ranks_ * bytes_of(dtype));

  Buffer again(dtype, count * ranks_);
  std::size_t const first = static_cast<std::size_t>(rank_) * count;
  for (std::size_t i = 0; i < count; ++i) again.set(first + i, value_of(rank_, i));
  world_->all_gather(again.part(first, count), again.view(), stream_);
  to = again;
  expect_gathered();
}

TEST_P(Collectives, AllToAllOfUnequalAndEmptyBlocks) {
  auto const [dtype, count, largest, backend] = GetParam();
  // Rank s sends (s * 3 + r) % 4 times count elements to rank r; some blocks are empty.
  auto const block = [&](std::size_t s, std::size_t r) { return (s * 3 + r) % 4 * GetParam().count; };
  auto const content = [](std::size_t s, std::size_t r, std::size_t i) {
    return static_cast<double>((s * 7 + r * 3 + i) % 100);
  };
  auto const me = static_cast<std::size_t>(rank_);
  std::vector<std::size_t> sent(ranks_), received(ranks_);
  for (std::size_t r = 0; r < ranks_; ++r) sent[r] = block(me, r), received[r] = block(r, me);
  Buffer from(dtype, std::accumulate(sent.begin(), sent.end(), std::size_t{0}));
  Buffer to(dtype, std::accumulate(received.begin(), received.end(), std::size_t{0}));
  std::size_t at = 0;
  for (std::size_t r = 0; r < ranks_; ++r)
    for (std::size_t i = 0; i < sent[r]; ++i) from.set(at++, content(me, r, i));
  world_->all_to_all(from.view(), sent, to.view(), received, stream_);
  at = 0;
  for (std::size_t s = 0; s < ranks_; ++s)
    for (std::size_t i = 0; i < received[s]; ++i) ASSERT_EQ(to.get(at++), content(s, me, i)) << s << ' ' << i;
  EXPECT_TRUE(to.guard_intact());
  EXPECT_EQ(world_->traffic().payload_bytes, from.view().bytes());
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  auto const [dtype, count, largest, backend] = GetParam();
  for (int root = 0; root < size_; ++root) {
    Buffer buffer = filled(count, rank_), expected = filled(count, root);
    world_->broadcast(buffer.view(), root, stream_);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(buffer.get(i), expected.get(i));
  }
  EXPECT_EQ(world_->traffic().payload_bytes, static_cast<std::size_t>(size_) * count * bytes_of(dtype));
}

TEST_P(Collectives, MessagesGoRoundTheRing) {
  auto const [dtype, count, largest, backend] = GetParam();
  int const above = (rank_ + 1) % size_, below = (rank_ + size_ - 1) % size_;
  Buffer out = filled(count, rank_), in(dtype, count), expected = filled(count, below);
  std::thread sender([&] {
    InlineStream stream;
    world_->send(out.view(), above, 3, stream);
  });
  world_->receive(in.view(), below, 3, stream_);
  sender.join();
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(in.get(i), expected.get(i)) << i;
  EXPECT_TRUE(in.guard_intact());
  EXPECT_EQ(world_->traffic().payload_bytes, count * bytes_of(dtype)) << "counted at the sender only";
  EXPECT_EQ(world_->traffic().calls, 2u);
}

std::string name_of(testing::TestParamInfo<Case> const& info) {
  return fmt::format(
      "{}{}_{}{}", info.param.backend == Backend::tcp ? "tcp_" : "", to_string(info.param.dtype), info.param.count,
      info.param.largest_count == largest_mpi_count ? "" : fmt::format("_in_pieces_of_{}", info.param.largest_count));
}

INSTANTIATE_TEST_SUITE_P(
    All, Collectives,
    testing::Values(Case{Dtype::f32, 1, largest_mpi_count}, Case{Dtype::f32, 1003, largest_mpi_count},
                    Case{Dtype::f32, 0, largest_mpi_count}, Case{Dtype::f32, 70001, largest_mpi_count},
                    Case{Dtype::bf16, 17, largest_mpi_count}, Case{Dtype::bf16, 40001, largest_mpi_count},
                    Case{Dtype::f64, 129, largest_mpi_count}, Case{Dtype::i32, 255, largest_mpi_count},
                    Case{Dtype::u8, 33, largest_mpi_count}, Case{Dtype::f32, 1003, 100}, Case{Dtype::bf16, 31, 7},
                    Case{Dtype::f64, 0, 7}, Case{Dtype::i32, 3, 1}, Case{Dtype::f32, 1003, largest_mpi_count, Backend::tcp},
                    Case{Dtype::f32, 0, largest_mpi_count, Backend::tcp}, Case{Dtype::f32, 700001, largest_mpi_count, Backend::tcp},
                    Case{Dtype::bf16, 3, largest_mpi_count, Backend::tcp}, Case{Dtype::f64, 129, largest_mpi_count, Backend::tcp},
                    Case{Dtype::i32, 255, largest_mpi_count, Backend::tcp}, Case{Dtype::u8, 33, largest_mpi_count, Backend::tcp}),
    name_of);

// Under either, and every rank of a job sees the same.
using Bf16Sums = EachBackend;
using Split = EachBackend;
using Concurrency = EachBackend;
using Errors = EachBackend;
using Verification = EachBackend;

std::string backend_name(testing::TestParamInfo<Backend> const& info) { return info.param == Backend::mpi ? "mpi" : "tcp"; }

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

TEST(Process, KnowsItsLauncherAndLibrary) {
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_FALSE(MpiProcess::library_version().empty());
  EXPECT_EQ(MpiProcess::library_version().find_first_of(",\n"), std::string_view::npos);
  EXPECT_THROW(MpiProcess(nullptr, nullptr), Error) << "MPI starts once";
  auto all = make_mpi_communicator();
  EXPECT_EQ(local_rank(), all->rank());
  EXPECT_EQ(local_size(), all->size());
}

TEST(Meeting, MissingAndDisagreeingRanksAreNamed) {
  auto all = make_mpi_communicator();
  int const rank = all->rank(), size = all->size();
  auto const message = [&](Rendezvous const& meeting, double timeout) -> std::string {
    try {
      make_tcp_communicator(meeting, timeout);
    } catch (Error const& error) {
      return error.what();
    }
    return "no error";
  };
  int port = free_port(*all);
  if (rank == 0) {
    EXPECT_EQ(message({0, size + 1, "localhost", port}, 0.1), fmt::format("rank(s) {} of {} did not come to localhost port {} in time", size == 2 ? "1, 2" : size == 4 ? "1, 2, 3, 4" : "1, 2, 3, 4, 5", size + 1, port));
    EXPECT_NE(message({0, 2, "no.such.host.invalid", port}, 0.1).find("MASTER_ADDR is 'no.such.host.invalid'"), std::string::npos);
  }
  port = free_port(*all);
  if (rank > 1) return all->barrier();
  std::string const text = message({rank, rank == 0 ? 2 : 3, "localhost", port}, 10);
  EXPECT_NE(text.find(rank == 0 ? "WORLD_SIZE: rank 1 has 3, rank 0 has 2" : "was not let in"), std::string::npos) << text;
  all->barrier();
}

TEST(Meeting, ARankThatLeavesIsNoticed) {
  auto all = make_mpi_communicator();
  int const port = free_port(*all);
  InlineStream stream;
  auto world = make_tcp_communicator({all->rank(), all->size(), "127.0.0.1", port}, 30);
  float value = 1;
  if (all->rank() == 0) {
    EXPECT_THROW(world->receive({&value, 1, Dtype::f32}, 1, 0, stream), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Bf16Sums, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Split, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Concurrency, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Errors, testing::Values(Backend::mpi, Backend::tcp), backend_name);
INSTANTIATE_TEST_SUITE_P(Over, Verification, testing::Values(Backend::mpi, Backend::tcp), backend_name);

}  // namespace
}  // namespace shardbench
