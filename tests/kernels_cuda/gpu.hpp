#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "emulation.hpp"
#include "kernels/core/cuda/stream.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench::test {

/// The emulated GPU with no faults armed; at the end of a test nothing may be out of order or out of bounds.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulation::accept_host_memory(false);
    emulation::set_delay_seed(0);
    emulation::drop_wait(0);
    for (int f = 0; f < static_cast<int>(emulation::Fault::size_); ++f)
      emulation::inject_fault(static_cast<emulation::Fault>(f), 0);
    emulation::take_races();
  }
  void TearDown() override {
    EXPECT_EQ(emulation::take_races(), std::vector<std::string>{});
    EXPECT_EQ(emulation::find_overruns(), std::vector<std::string>{});
  }

  /// Device memory with these values, uploaded on `stream` and waited for.
  float* upload(std::vector<float> const& values) {
    auto* const memory = static_cast<float*>(device_.allocate(values.size() * sizeof(float)));
    device_.copy_from_host(memory, values.data(), values.size() * sizeof(float), *stream_);
    stream_->synchronize();
    return memory;
  }
  std::vector<float> download(float const* memory, std::size_t count) {
    std::vector<float> values(count);
    device_.copy_to_host(values.data(), memory, count * sizeof(float), *stream_);
    stream_->synchronize();
    return values;
  }

  CudaDevice device_{0};
  std::unique_ptr<Stream> stream_ = device_.make_stream(StreamKind::compute);
};

}  // namespace shardbench::test
