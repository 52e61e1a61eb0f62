#pragma once
#include <optional>
#include <string_view>

namespace shardbench {

/// What a GPU can do at most, by its maker: dense, without sparsity; 0 where it has no such products.
struct GpuPeaks {
  std::string_view name;  ///< as CUDA names the device, or the part of it that tells
  double fp32_tflops = 0, bf16_tflops = 0, fp8_tflops = 0;
  double memory_gb_per_s = 0;
  std::string_view source;
};

/// The peaks of the GPU with this name ("NVIDIA H100 80GB HBM3"); none for one that is not in the table.
std::optional<GpuPeaks> gpu_peaks(std::string_view device_name);

}  // namespace shardbench
