// The emulated GPU's own promise: ops that touch one buffer without an order between them are reported, others never.
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

class Order : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    values_ = upload(std::vector<float>(64, 1.0f)), ones_ = upload(std::vector<float>(64, 1.0f));
  }
  void TearDown() override {
    device_.synchronize();
    device_.deallocate(values_), device_.deallocate(ones_);
    GpuTest::TearDown();
  }
  /// A kernel that writes to values_ and reads nothing of them.
  void write(Stream& stream, float value, std::int64_t first = 0, std::int64_t count = 64) {
    CopyBlockArgs args{.from = ones_, .to = values_ + first, .rows = 1, .cols = count};
    args.from_stride = args.to_stride = count, args.scale = value;
    device_.kernels().copy_block(stream, args);
  }
  /// Later work on `later` starts after all that is on `earlier` now.
  void order(Stream& earlier, Stream& later) {
    auto event = device_.make_event(false);
    earlier.record(*event);
    later.wait(*event);
  }
  std::size_t races() { return emulation::take_races().size(); }

  float *values_ = nullptr, *ones_ = nullptr;
  std::unique_ptr<Stream> other_ = device_.make_stream(StreamKind::comm);
};

TEST_F(Order, TwoStreamsOnOneBufferAreReported) {
  write(*stream_, 2);
  write(*other_, 3);
  auto const found = emulation::take_races();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("write by a kernel"), std::string::npos) << found[0];
}

TEST_F(Order, AnEventOrdersThem) {
  write(*stream_, 2);
  order(*stream_, *other_);
  write(*other_, 3);
  order(*other_, *stream_);
  EXPECT_EQ(download(values_, 64), std::vector<float>(64, 3.0f));
}

TEST_F(Order, ADroppedWaitIsReported) {
  int const before = emulation::waits_issued();
  emulation::drop_wait(1);
  write(*stream_, 2);
  order(*stream_, *other_);
  write(*other_, 3);
  EXPECT_EQ(emulation::waits_issued(), before + 1);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Order, WorkAfterTheRecordIsNotCovered) {
  auto const event = device_.make_event(false);
  stream_->record(*event);
  write(*stream_, 2);
  other_->wait(*event);
  write(*other_, 3);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Order, AWaitOfTheHostOrdersThem) {
  write(*stream_, 2);
  stream_->synchronize();
  write(*other_, 3);
  other_->synchronize();
  EXPECT_EQ(download(values_, 1)[0], 3.0f);
}

TEST_F(Order, OrderPassesThroughAThirdStream) {
  auto const third = device_.make_stream(StreamKind::comm);
  write(*stream_, 2);
  order(*stream_, *third);
  order(*third, *other_);
  write(*other_, 3);
  EXPECT_EQ(races(), 0u);
}

TEST_F(Order, PartsThatDoNotOverlapAreFree) {
  write(*stream_, 2, 0, 32);
  write(*other_, 3, 32, 32);
  EXPECT_EQ(races(), 0u);
  write(*other_, 3, 31, 2);
  EXPECT_EQ(races(), 1u);
}

TEST_F(Order, TwoReadersAreFreeUntilSomeoneWrites) {
  auto* const out = static_cast<float*>(device_.allocate(128 * sizeof(float)));
  AddArgs args{.a = values_, .b = values_, .out = out, .count = 64};
  device_.kernels().add(*stream_, args);
  args.out = out + 64;
  device_.kernels().add(*other_, args);
  EXPECT_EQ(races(), 0u);
  write(*other_, 2);  // reads of the first stream are still open
  auto const found = emulation::take_races();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("read by a kernel"), std::string::npos) << found[0];
  device_.deallocate(out);
}

TEST_F(Order, CopiesAndProductsAreSeenToo) {
  std::vector<float> host(64);
  write(*stream_, 2);
  device_.copy_to_host(host.data(), values_, 64 * sizeof(float), *other_);
  EXPECT_EQ(races(), 1u);
  device_.synchronize();
  GemmArgs const product{
      .a = values_, .b = values_, .c = values_ + 32, .m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldc = 2};
  device_.kernels().gemm(*stream_, product);
  device_.copy_to_host(host.data(), values_ + 35, sizeof(float), *other_);
  EXPECT_EQ(races(), 1u);
  device_.synchronize();  // the copy's target ends with this function
}

TEST_F(Order, ResultsAreRightUnderAnyDelays) {
  for (unsigned const seed : {1u, 2u, 3u}) {
    emulation::set_delay_seed(seed);
    auto const one = device_.make_stream(StreamKind::compute), two = device_.make_stream(StreamKind::comm);
    write(*one, 0);
    for (int i = 0; i < 10; ++i) {
      AddArgs const add{.a = values_, .b = values_, .out = values_, .count = 64};
      device_.kernels().add(*one, add);
      order(*one, *two);
      device_.fill_bytes(values_, 0, 4, *two);
      order(*two, *one);
    }
    one->synchronize();
    EXPECT_EQ(download(values_, 64), std::vector<float>(64, 0.0f));
  }
}

}  // namespace
}  // namespace shardbench::test
