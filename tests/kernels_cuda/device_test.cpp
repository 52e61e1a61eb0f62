#include <cmath>
#include <cstdint>

#include "kernels/core/cuda/plugin.hpp"
#include "tests/kernels_cuda/gpu.hpp"

namespace shardbench::test {
namespace {

using Device_ = GpuTest;

TEST_F(Device_, MemoryIsAlignedPoisonedAndCopiedBothWays) {
  void* const memory = device_.allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
  EXPECT_TRUE(std::isnan(download(static_cast<float*>(memory), 250)[249]));
  float* const values = upload({1, 2, 3});
  device_.copy(memory, values, 3 * sizeof(float), *stream_);
  device_.fill_bytes(static_cast<float*>(memory) + 3, 0, sizeof(float), *stream_);
  EXPECT_EQ(download(static_cast<float*>(memory), 4), (std::vector<float>{1, 2, 3, 0}));
  device_.deallocate(memory);
  device_.deallocate(values);
}

TEST_F(Device_, FreedMemoryIsCountedFree) {
  double const before = device_.info().free_memory_bytes;
  void* const memory = device_.allocate(1 << 20);
  EXPECT_EQ(device_.info().free_memory_bytes, before - (1 << 20));
  device_.deallocate(memory);
  EXPECT_EQ(device_.info().free_memory_bytes, before);
}

TEST_F(Device_, NoRoomSaysWhatWasAskedForAndWhatWasFree) {
  double const total = device_.info().memory_bytes, free = device_.info().free_memory_bytes;
  try {
    device_.allocate(static_cast<std::size_t>(total) + 1);
    FAIL() << "more than all of the memory was given";
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes, total + 1);
    EXPECT_EQ(error.free_bytes, free);
  }
  emulation::inject_fault(emulation::Fault::allocation, 2);
  void* const first = device_.allocate(16);
  EXPECT_THROW(device_.allocate(16), OutOfMemory);
  void* const third = device_.allocate(16);  // a refusal is not sticky
  device_.deallocate(first);
  device_.deallocate(third);
}

TEST_F(Device_, CopiesOutsideAnAllocationAreRefused) {
  float* const values = upload({1, 2, 3});
  std::vector<float> host(8);
  EXPECT_THROW(device_.copy_to_host(host.data(), values, 16, *stream_), Error);
  EXPECT_THROW(device_.fill_bytes(values, 0, 16, *stream_), Error);
  EXPECT_THROW(device_.copy(values, host.data(), 12, *stream_), Error);  // a host pointer taken for a device one
  device_.deallocate(values);
}

TEST_F(Device_, ALaunchThatFailsThrowsAndNamesTheCall) {
  float* const values = upload({1, 2, 3});
  AddArgs const args{.a = values, .b = values, .out = values, .count = 3};
  emulation::inject_fault(emulation::Fault::launch, 1);
  try {
    device_.kernels().add(*stream_, args);
    FAIL() << "the launch failure went unnoticed";
  } catch (Error const& error) {
    EXPECT_NE(std::string(error.what()).find("cudaErrorLaunchFailure"), std::string::npos) << error.what();
  }
  device_.kernels().add(*stream_, args);
  EXPECT_EQ(download(values, 3), (std::vector<float>{2, 4, 6}));
  device_.deallocate(values);
}

TEST_F(Device_, AProductThatFailsThrows) {
  float* const values = upload({1, 2, 3, 4});
  GemmArgs const args{.a = values, .b = values, .c = values + 3, .m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
  emulation::inject_fault(emulation::Fault::matmul, 1);
  EXPECT_THROW(device_.kernels().gemm(*stream_, args), Error);
  device_.kernels().gemm(*stream_, args);
  EXPECT_EQ(download(values, 4)[3], 1.0f);
  device_.deallocate(values);
}

TEST_F(Device_, Fp8ProductsSayWhichLayoutTheyNeed) {
  float* const values = upload({1, 2, 3, 4});
  GemmArgs args{.a = values, .b = values, .c = values, .m = 1, .n = 1, .k = 16, .lda = 16, .ldb = 1, .ldc = 1};
  args.input_dtype = Dtype::fp8;
  args.output_dtype = Dtype::bf16;
  EXPECT_THROW(device_.kernels().gemm(*stream_, args), Error);
  device_.deallocate(values);
}

TEST_F(Device_, CommStreamsRefuseKernelsThatNeedScratch) {
  float* const values = upload({3, 4, 0});
  auto const comm = device_.make_stream(StreamKind::comm);
  EXPECT_THROW(device_.kernels().square_sum(*comm, {.x = values, .out = values + 2, .count = 2}), Error);
  device_.kernels().square_sum(*stream_, {.x = values, .out = values + 2, .count = 2});
  EXPECT_EQ(download(values, 3)[2], 25.0f);
  device_.deallocate(values);
}

TEST_F(Device_, KernelsThatWriteTooFarAreFound) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends the process at such a write, as it should";
#else
  float* const values = upload({1, 2, 3});
  device_.kernels().add(*stream_, {.a = values, .b = values, .out = values, .count = 4});
  stream_->synchronize();
  EXPECT_EQ(emulation::find_overruns().size(), 1u);
  device_.deallocate(values);
#endif
}

TEST_F(Device_, EventsGiveTimesInOrderOnOneClock) {
  auto const first = device_.make_event(true), second = device_.make_event(true), untimed = device_.make_event(false);
  EXPECT_THROW(first->time_ms(), Error);
  stream_->record(*first);
  float* const values = upload(std::vector<float>(1000, 1.0f));
  stream_->record(*second);
  stream_->record(*untimed);
  second->synchronize();
  untimed->synchronize();
  EXPECT_GT(second->time_ms(), first->time_ms());
  EXPECT_THROW(untimed->time_ms(), Error);
  device_.deallocate(values);
}

TEST(Plugin, GivesADeviceOrOneLineOfReason) {
  char error[256] = "";
  std::unique_ptr<Device> const device(shardbench_make_device(0, error, sizeof error));
  ASSERT_TRUE(device) << error;
  EXPECT_EQ(device->info().backend, "cuda-emulated");
  EXPECT_EQ(device->kernels().name, "cuda");
  EXPECT_EQ(shardbench_make_device(8, error, sizeof error), nullptr);
  EXPECT_NE(std::string(error).find("GPU 8 asked for, 8 present"), std::string::npos) << error;
}

TEST(Plugin, NamesItsLibraries) {
  EXPECT_EQ(std::string(shardbench_cuda_versions()), "CUDA 13.0, driver 13.0, cuBLASLt 13.0.0, NCCL 2.28.9");
}

TEST_F(Device_, AFaultFoundElsewhereIsThrownByWhoeverWaits) {
  device_.context()->fault.raise("the watchdog's reason");
  device_.context()->fault.raise("a later one");
  auto const event = device_.make_event(false);
  stream_->record(*event);
  for (auto const wait :
       {+[](Device&d, Stream&, Event&) { d.synchronize(); }, +[](Device&, Stream&s, Event&) { s.synchronize(); },
        +[](Device&, Stream&, Event&e) { e.synchronize(); }}) {
    try {
      wait(device_, *stream_, *event);
      ADD_FAILURE() << "waited as if nothing had happened";
    } catch (Error const& error) {
      EXPECT_STREQ(error.what(), "the watchdog's reason");
    }
  }
}

}  // namespace
}  // namespace shardbench::test
