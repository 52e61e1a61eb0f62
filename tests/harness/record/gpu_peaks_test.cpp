#include "harness/record/gpu_peaks.hpp"

#include <gtest/gtest.h>

namespace shardbench::test {
namespace {

TEST(GpuPeaks, AreThoseOfTheDeviceThatCudaNames) {
  EXPECT_EQ(gpu_peaks("NVIDIA H100 80GB HBM3")->bf16_tflops, 989.4);
  EXPECT_EQ(gpu_peaks("NVIDIA H200")->memory_gb_per_s, 4800);
  EXPECT_EQ(gpu_peaks("NVIDIA GB200")->bf16_tflops, 2500) << "not the B200 in its name";
  EXPECT_EQ(gpu_peaks("NVIDIA A100-SXM4-80GB")->fp8_tflops, 0);
}

TEST(GpuPeaks, AnUnknownDeviceHasNone) {
  EXPECT_FALSE(gpu_peaks("Emulated GPU (functional only)"));
  EXPECT_FALSE(gpu_peaks(""));
}

}  // namespace
}  // namespace shardbench::test
