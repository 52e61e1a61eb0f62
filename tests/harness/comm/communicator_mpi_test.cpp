#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "harness/comm/communicator.hpp"
#include "harness/comm/launch_env.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"
#include "tests/harness/comm/backends.hpp"

namespace shardbench::test {
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
    testing::Values(
        Case{Dtype::f32, 1, largest_mpi_count}, Case{Dtype::f32, 1003, largest_mpi_count},
        Case{Dtype::f32, 0, largest_mpi_count}, Case{Dtype::f32, 70001, largest_mpi_count},
        Case{Dtype::bf16, 17, largest_mpi_count}, Case{Dtype::bf16, 40001, largest_mpi_count},
        Case{Dtype::f64, 129, largest_mpi_count}, Case{Dtype::i32, 255, largest_mpi_count},
        Case{Dtype::u8, 33, largest_mpi_count}, Case{Dtype::f32, 1003, 100}, Case{Dtype::bf16, 31, 7},
        Case{Dtype::f64, 0, 7}, Case{Dtype::i32, 3, 1}, Case{Dtype::f32, 1003, largest_mpi_count, Backend::tcp},
        Case{Dtype::f32, 0, largest_mpi_count, Backend::tcp}, Case{Dtype::f32, 700001, largest_mpi_count, Backend::tcp},
        Case{Dtype::bf16, 3, largest_mpi_count, Backend::tcp}, Case{Dtype::f64, 129, largest_mpi_count, Backend::tcp},
        Case{Dtype::i32, 255, largest_mpi_count, Backend::tcp}, Case{Dtype::u8, 33, largest_mpi_count, Backend::tcp}),
    name_of);

TEST(Process, KnowsItsLauncherAndLibrary) {
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_FALSE(MpiProcess::library_version().empty());
  EXPECT_EQ(MpiProcess::library_version().find_first_of(",\n"), std::string_view::npos);
  EXPECT_THROW(MpiProcess(nullptr, nullptr), Error) << "MPI starts once";
  auto all = make_mpi_communicator();
  EXPECT_EQ(local_rank(), all->rank());
  EXPECT_EQ(local_size(), all->size());
}

}  // namespace
}  // namespace shardbench::test
