#include "kernels/core/cuda/nvml.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/core/cuda/stream.hpp"

namespace shardbench::test {
namespace {

/// Set by the build for the run that finds the fake library.
bool has_library() { return std::getenv("FAKE_NVML") != nullptr; }

TEST(Nvml, WithoutTheLibraryNothingIsSaid) {
  if (has_library()) GTEST_SKIP() << "the library is there";
  DeviceState const state = CudaDevice(0).state();
  EXPECT_FALSE(state.clock_mhz || state.power_w || state.throttled);
  EXPECT_EQ(state.throttle_reasons, "");
  EXPECT_EQ(nvml_links("0000:00:00.0"), -1);
}

TEST(Nvml, ClockPowerAndThrottling) {
  if (!has_library()) GTEST_SKIP() << "no library";
  CudaDevice device(0);
  DeviceState const calm = device.state();
  EXPECT_EQ(calm.clock_mhz, 1755.0);
  EXPECT_EQ(calm.power_w, 412.345);
  EXPECT_EQ(calm.throttled, false);
  EXPECT_EQ(calm.throttle_reasons, "");
  setenv("FAKE_NVML_REASONS", "44", 1);
  EXPECT_EQ(device.state().throttled, true);
  EXPECT_EQ(device.state().throttle_reasons, "power cap, thermal (hardware)");
  setenv("FAKE_NVML_REASONS", "113", 1);  // idle, the user's own clocks, sync boost, display
  EXPECT_EQ(device.state().throttled, false);
  unsetenv("FAKE_NVML_REASONS");
}

TEST(Nvml, WhatTheGpuCannotTellStaysEmpty) {
  if (!has_library()) GTEST_SKIP() << "no library";
  setenv("FAKE_NVML_NO_POWER", "1", 1);
  DeviceState const state = CudaDevice(0).state();
  unsetenv("FAKE_NVML_NO_POWER");
  EXPECT_FALSE(state.power_w);
  EXPECT_EQ(state.clock_mhz, 1755.0);
  EXPECT_FALSE(nvml_state("0000:17:00.0").clock_mhz) << "another GPU";
  EXPECT_EQ(nvml_links("0000:17:00.0"), -1);
  EXPECT_EQ(nvml_links("0000:00:00.0"), 10) << "of 12 links two are down";
}

TEST(Nvml, AStreamsMemoryIsSaid) {
  CudaDevice device(0);
  DeviceInfo const before = device.info();
  EXPECT_GT(before.stream_bytes, 0);
  auto const compute = device.make_stream(StreamKind::compute);
  EXPECT_EQ(before.free_memory_bytes - device.info().free_memory_bytes, before.stream_bytes);
  auto const comm = device.make_stream(StreamKind::comm);
  EXPECT_EQ(before.free_memory_bytes - device.info().free_memory_bytes, before.stream_bytes);
}

}  // namespace
}  // namespace shardbench::test
