#include "harness/record/gpu_peaks.hpp"

namespace shardbench {
namespace {

// fp32 is that of the CUDA cores: fp32 products here never use TF32. The more special name comes first.
constexpr GpuPeaks table[] = {
    {"A100-SXM4-80GB", 19.5, 312, 0, 2039, "NVIDIA A100 datasheet (2021)"},
    {"A100 80GB PCIe", 19.5, 312, 0, 1935, "NVIDIA A100 datasheet (2021)"},
    {"A100-SXM4-40GB", 19.5, 312, 0, 1555, "NVIDIA A100 datasheet (2020)"},
    {"H100 80GB HBM3", 66.9, 989.4, 1978.9, 3352, "NVIDIA H100 architecture white paper, SXM5"},
    {"H100 PCIe", 51.2, 756, 1513, 2039, "NVIDIA H100 architecture white paper, PCIe"},
    {"H200", 66.9, 989.4, 1978.9, 4800, "NVIDIA H200 datasheet, SXM"},
    {"GB200", 80, 2500, 5000, 8000, "NVIDIA GB200 NVL72 datasheet, per GPU"},
    {"B200", 75, 2250, 4500, 7700, "NVIDIA DGX B200 datasheet, per GPU"},
    {"L40S", 91.6, 362, 733, 864, "NVIDIA L40S datasheet"},
};

}  // namespace

std::optional<GpuPeaks> gpu_peaks(std::string_view device_name) {
  for (GpuPeaks const& peaks : table)
    if (device_name.find(peaks.name) != device_name.npos) return peaks;
  return std::nullopt;
}

}  // namespace shardbench
