// The NCCL communicator on the emulated GPU, with the ranks that MPI gives: 2 or 4.
#include <chrono>

#include "harness/comm/communicator_nccl.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

constexpr double patience_seconds = 60;

class Nccl : public GpuTest {
 protected:
  void scale(float* data, float factor) {
    device_.kernels().add(*stream_, {.a = data, .b = data, .out = data, .count = 8, .scale = factor - 1});
  }
  void SetUp() override {
    GpuTest::SetUp();
    world_ = make_mpi_communicator();
    nccl_ = make_nccl_communicator(*world_, device_, patience_seconds);
    rank_ = static_cast<std::size_t>(nccl_->rank());
    size_ = static_cast<std::size_t>(nccl_->size());
  }
  void TearDown() override {
    nccl_.reset();
    GpuTest::TearDown();
    world_->barrier();
  }
  float mine() const { return static_cast<float>(rank_); }
  /// 0 + 1 + ... + (size - 1).
  float sum_of_ranks() const { return static_cast<float>(size_ * (size_ - 1) / 2); }

  std::unique_ptr<Communicator> world_, nccl_;
  std::unique_ptr<Stream> comm_ = device_.make_stream(StreamKind::comm);
  std::size_t rank_ = 0, size_ = 1;
};

TEST_F(Nccl, KnowsItsRanks) {
  EXPECT_EQ(nccl_->backend(), "nccl");
  EXPECT_EQ(nccl_->rank(), world_->rank());
  EXPECT_EQ(nccl_->size(), world_->size());
}

TEST_F(Nccl, AllReduceSumsAndTakesTheMaximum) {
  float* const data = upload({mine(), mine() + 1, -mine()});
  nccl_->all_reduce({data, 2, Dtype::f32}, ReduceOp::sum, *comm_);
  nccl_->all_reduce({data + 2, 1, Dtype::f32}, ReduceOp::max, *comm_);
  comm_->synchronize();
  EXPECT_EQ(download(data, 3), (std::vector<float>{sum_of_ranks(), sum_of_ranks() + static_cast<float>(size_), 0}));
  EXPECT_EQ(nccl_->traffic().payload_bytes, 12u);
  EXPECT_EQ(nccl_->traffic().calls, 2u);
  device_.deallocate(data);
}

TEST_F(Nccl, Bf16IsReducedToo) {
  std::vector<Bf16> host(3, to_bf16(1.5f));
  void* const data = device_.allocate(6);
  device_.copy_from_host(data, host.data(), 6, *comm_);
  nccl_->all_reduce({data, 3, Dtype::bf16}, ReduceOp::sum, *comm_);
  device_.copy_to_host(host.data(), data, 6, *comm_);
  comm_->synchronize();
  EXPECT_EQ(to_float(host[2]), 1.5f * static_cast<float>(size_));
  device_.deallocate(data);
}

TEST_F(Nccl, ReduceScatterThenAllGatherIsAllReduce) {
  std::vector<float> values(2 * size_);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = mine() + 10 * static_cast<float>(i);
  float* const data = upload(values);
  float* const shard = data + 2 * rank_;  // in place, as NCCL allows
  nccl_->reduce_scatter({data, values.size(), Dtype::f32}, {shard, 2, Dtype::f32}, *comm_);
  nccl_->all_gather({shard, 2, Dtype::f32}, {data, values.size(), Dtype::f32}, *comm_);
  comm_->synchronize();
  std::vector<float> const result = download(data, values.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    EXPECT_EQ(result[i], sum_of_ranks() + 10 * static_cast<float>(i * size_));
  device_.deallocate(data);
}

TEST_F(Nccl, AllToAllWithUnevenAndEmptyBlocks) {
  // Rank r sends r + 1 elements, its own number, to every rank but 0, which gets none.
  std::vector<std::size_t> send(size_, rank_ + 1), receive(size_, 0);
  send[0] = 0;
  std::vector<float> expected;
  for (std::size_t peer = 0; peer < size_ && rank_ > 0; ++peer) {
    receive[peer] = peer + 1;
    expected.insert(expected.end(), peer + 1, static_cast<float>(peer));
  }
  std::size_t const sent = (size_ - 1) * (rank_ + 1);
  float* const from = upload(std::vector<float>(sent, mine()));
  float* const to = upload(std::vector<float>(expected.size() + 1, -1));
  nccl_->all_to_all({from, sent, Dtype::f32}, send, {to, expected.size(), Dtype::f32}, receive, *comm_);
  comm_->synchronize();
  expected.push_back(-1);
  EXPECT_EQ(download(to, expected.size()), expected);
  EXPECT_THROW(nccl_->all_to_all({from, sent + 1, Dtype::f32}, send, {to, 0, Dtype::f32}, receive, *comm_), Error);
  device_.deallocate(from);
  device_.deallocate(to);
}

TEST_F(Nccl, BroadcastAndARingOfMessages) {
  float* const data = upload({mine(), mine()});
  nccl_->broadcast({data, 1, Dtype::f32}, 1, *comm_);
  int const next = static_cast<int>((rank_ + 1) % size_), previous = static_cast<int>((rank_ + size_ - 1) % size_);
  float* const got = upload({-1});
  // Even ranks send first: a send completes only with its receive, so a ring of sends alone would never end.
  auto const send = [&] { nccl_->send({data + 1, 1, Dtype::f32}, next, 3, *comm_); };
  auto const receive = [&] { nccl_->receive({got, 1, Dtype::f32}, previous, 3, *comm_); };
  if (rank_ % 2 == 0) {
    send();
    receive();
  } else {
    receive();
    send();
  }
  comm_->synchronize();
  EXPECT_EQ(download(data, 1)[0], 1.0f);
  EXPECT_EQ(download(got, 1)[0], static_cast<float>(previous));
  device_.deallocate(data);
  device_.deallocate(got);
}

TEST_F(Nccl, SplitGroupsByColorAndOrdersByKey) {
  int const color = static_cast<int>(rank_ % 2);
  auto const half = nccl_->split(color, -static_cast<int>(rank_));
  ASSERT_TRUE(half);
  EXPECT_EQ(half->size(), static_cast<int>((size_ + 1 - rank_ % 2) / 2));
  EXPECT_EQ(half->rank(), half->size() - 1 - static_cast<int>(rank_ / 2));
  float* const data = upload({mine()});
  half->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_);
  comm_->synchronize();
  float expected = 0;
  for (std::size_t r = rank_ % 2; r < size_; r += 2) expected += static_cast<float>(r);
  EXPECT_EQ(download(data, 1)[0], expected);
  auto const none = nccl_->split(rank_ == 0 ? -1 : 0, 0);
  EXPECT_EQ(none == nullptr, rank_ == 0);
  device_.deallocate(data);
}

TEST_F(Nccl, BarrierAndEmptyCalls) {
  nccl_->all_reduce({nullptr, 0, Dtype::f32}, ReduceOp::sum, *comm_);
  nccl_->barrier();
  nccl_->barrier();
  EXPECT_EQ(nccl_->traffic().payload_bytes, 0u);
}

TEST_F(Nccl, OverlapsWithComputeOnlyWhereEventsAllowIt) {
  float* const data = upload(std::vector<float>(8, 1.0f));
  auto const ready = device_.make_event(false), reduced = device_.make_event(false);
  scale(data, 2);
  stream_->record(*ready);
  comm_->wait(*ready);
  nccl_->all_reduce({data, 8, Dtype::f32}, ReduceOp::sum, *comm_);
  comm_->record(*reduced);
  stream_->wait(*reduced);
  scale(data, 0.5f);
  EXPECT_EQ(download(data, 8), std::vector<float>(8, static_cast<float>(size_)));
  nccl_->all_reduce({data, 8, Dtype::f32}, ReduceOp::sum, *comm_);
  scale(data, 2);  // not waited for
  EXPECT_EQ(emulation::take_races().size(), 2u) << "what it reads and what it writes";
  device_.synchronize();
  device_.deallocate(data);
}

/// The message of the Error that `call` throws.
template <class Call>
std::string failure_of(Call const& call) {
  try {
    call();
  } catch (Error const& error) {
    return error.what();
  }
  return "no failure";
}

TEST_F(Nccl, ARefusedCallThrows) {
  emulation::inject_fault(emulation::Fault::nccl_error, 1);
  float* const data = upload({1});
  std::string const reason = failure_of([&] { nccl_->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_); });
  EXPECT_NE(reason.find("ncclAllReduce failed (remote process exited"), std::string::npos) << reason;
  device_.deallocate(data);
}

TEST_F(Nccl, AnAsynchronousErrorAbortsWhoeverWaits) {
  emulation::inject_fault(emulation::Fault::nccl_error, 1);
  float* const data = upload({1});
  EXPECT_THROW(nccl_->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_), Error);
  std::string reason = "no failure";
  for (int i = 0; i < 500 && reason == "no failure"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reason = failure_of([&] { device_.synchronize(); });
  }
  EXPECT_NE(reason.find("NCCL: asynchronous error"), std::string::npos) << reason;
  device_.deallocate(data);
}

TEST_F(Nccl, AHangIsAbortedAndReported) {
  auto const impatient = make_nccl_communicator(*world_, device_, 0.3);
  emulation::inject_fault(emulation::Fault::nccl_hang, 1);
  float* const data = upload({1});
  impatient->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_);
  std::string const reason = failure_of([&] { comm_->synchronize(); });
  EXPECT_NE(reason.find("NCCL: no progress on a stream for 0.3 s"), std::string::npos) << reason;
  EXPECT_THROW(impatient->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_), Error);
  device_.deallocate(data);
}

TEST_F(Nccl, ARankThatNeverComesIsAHangToo) {
  auto const impatient = make_nccl_communicator(*world_, device_, 0.3);
  if (rank_ == 0) return;  // the others wait for this one in vain
  float* const data = upload({1});
  impatient->all_reduce({data, 1, Dtype::f32}, ReduceOp::sum, *comm_);
  std::string const reason = failure_of([&] { comm_->synchronize(); });
  EXPECT_NE(reason.find("NCCL: no progress"), std::string::npos) << reason;
  device_.deallocate(data);
}

TEST_F(Nccl, AStartThatHangsIsReported) {
  emulation::inject_fault(emulation::Fault::nccl_hang, 1);
  std::string const reason = failure_of([&] { make_nccl_communicator(*world_, device_, 0.2); });
  EXPECT_NE(reason.find("ncclCommInitRankConfig made no progress for 0.2 s"), std::string::npos) << reason;
}

TEST_F(Nccl, WorkThatGoesOnLongerThanTheTimeoutIsNoHang) {
  auto const impatient = make_nccl_communicator(*world_, device_, 2.0);
  float* const word = upload({0});
  auto const start = std::chrono::steady_clock::now();
  for (float done = 0; done == 0;) {  // the ranks agree on when it is enough
    bool const enough = std::chrono::steady_clock::now() - start > std::chrono::milliseconds(2500);
    float const vote = enough ? 1.0f : 0.0f;
    device_.copy_from_host(word, &vote, sizeof vote, *comm_);
    for (int i = 0; i < 20; ++i) impatient->all_reduce({word, 1, Dtype::f32}, ReduceOp::max, *comm_);
    device_.copy_to_host(&done, word, sizeof done, *comm_);
    comm_->synchronize();
  }
  EXPECT_NO_THROW(device_.synchronize());
  device_.deallocate(word);
}

}  // namespace
}  // namespace shardbench::test
