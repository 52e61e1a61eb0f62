#include "harness/simulate/gemm_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

struct Tile {
  double m, n;
};
constexpr Tile tiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}, {32, 64}};
constexpr double splits[] = {1, 2, 4, 8, 16};
constexpr double whole_tile = 256 * 128, least_split_k = 256;

}  // namespace

double gemm_us(DeviceProfile const& device, Dtype precision, double m, double n, double k, double element_bytes,
               double output_bytes) {
  auto const entry = device.gemm.find(precision);
  VALIDATE(entry != device.gemm.end(), "no GEMM parameters for this precision on " + device.name);
  GemmProfile const& g = entry->second;
  double const processors = static_cast<double>(device.processors);
  double const peak = device.peak_tflops.at(precision) * 1e6 / processors;  // FLOP a microsecond and processor
  double const memory = device.memory_gb_per_s * 1e3 * g.memory_efficiency;
  double const moved = (element_bytes * (m * k + k * n) + output_bytes * m * n) / memory;
  double best = std::numeric_limits<double>::infinity();
  for (Tile const& tile : tiles) {
    double const rate =
        peak * g.max_efficiency * std::pow(1 - g.small_tile_penalty, std::log2(whole_tile / (tile.m * tile.n)));
    for (double const split : splits) {
      if (split > 1 && k / split < least_split_k) break;
      double const full = std::ceil(m / tile.m) * std::ceil(n / tile.n) * split / processors;
      double const waves = g.quantisation * std::ceil(full) + (1 - g.quantisation) * std::max(full, 1.0);
      double const compute = waves * 2 * tile.m * tile.n * (k / split + g.k_overhead) / rate;
      // The parts of a split product are written and summed in fp32.
      double const sums = split > 1 ? 8 * m * n * split / memory : 0;
      best = std::min(best, std::max(compute, moved) + sums);
    }
  }
  return g.launch_us + best;
}

}  // namespace shardbench
