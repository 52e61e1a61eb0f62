// The plugin for real GPUs, opened as the program opens it. Where there is no GPU it must say so in one line.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/device.hpp"

namespace shardbench::test {
namespace {

class RealPlugin : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(SHARDBENCH_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    make_device_ = reinterpret_cast<MakeDeviceFunction>(dlsym(library, "shardbench_make_device"));
    versions_ = reinterpret_cast<CudaVersionsFunction>(dlsym(library, "shardbench_cuda_versions"));
    ASSERT_TRUE(make_device_ && versions_);
    EXPECT_TRUE(dlsym(library, "shardbench_make_nccl_communicator"));
  }
  MakeDeviceFunction make_device_ = nullptr;
  CudaVersionsFunction versions_ = nullptr;
};

TEST_F(RealPlugin, GivesADeviceOrTheReason) {
  char error[512] = "";
  std::unique_ptr<Device> const device(make_device_(0, error, sizeof error));
  std::string const reason = error;
  if (device) {
    EXPECT_EQ(device->info().backend, "cuda");
    EXPECT_GT(device->info().memory_bytes, 1e9);
  } else {
    EXPECT_NE(reason.find("cudaGetDeviceCount(&count) failed (cudaError"), std::string::npos) << reason;
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  }
}

TEST_F(RealPlugin, NamesItsLibrariesWithoutADriver) {
  std::string const versions = versions_();
  EXPECT_EQ(versions.rfind("CUDA 1", 0), 0u) << versions;
  EXPECT_NE(versions.find(", NCCL 2."), std::string::npos) << versions;
}

}  // namespace
}  // namespace shardbench::test
