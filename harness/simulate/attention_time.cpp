#include "harness/simulate/attention_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double bytes_per_us = 1e3;  // of 1 GB/s
constexpr double tile_step = 64;      // heads beyond the largest tile are cut into steps of this size
constexpr double kept_from = 0.35;    // of the cache: from here on operands begin to leave it

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// `dim` as the kernel computes it.
double padded(double dim, double tile) { return dim <= tile ? tile : std::ceil(dim / tile_step) * tile_step; }

struct Walk {
  double tiles;    ///< of queries, of all heads and samples
  double keys;     ///< that one of them walks on average
  double longest;  ///< that the last walks
};

Walk walk(AttentionKernel const& k, AttentionOpShape const& s, double overhead) {
  double const rows = as_double(s.seq_q), keys = as_double(s.seq_k), tile = as_double(k.query_tile);
  bool const causal = s.mask == AttentionMask::causal;
  bool const windowed = s.window > 0 && s.window < s.seq_k;
  double const beyond = overhead + (windowed ? k.window_overhead : 0);
  double const edges = (causal ? tile / 2 : 0) + (windowed ? tile / 2 : 0);
  double const most = windowed ? std::min(keys, as_double(s.window) + tile) : keys + (causal ? tile / 2 : 0);
  return {as_double(s.batch * s.heads) * std::ceil(rows / tile), s.visible_pairs / rows + edges + beyond,
          most + beyond};
}

double elements(AttentionOpShape const& s, bool query, bool kept, bool output) {
  double const q = query ? as_double(s.seq_q * s.batch * s.heads) * as_double(s.head_dim) : 0;
  double const kv = kept ? as_double(s.seq_k * s.batch * s.kv_heads) * as_double(s.head_dim + s.value_dim) : 0;
  double const out = output ? as_double(s.seq_q * s.batch * s.heads) * as_double(s.value_dim) : 0;
  return q + kv + out;
}

double kernel_us(DeviceProfile const& d, AttentionKernel const& k, Dtype precision, Dtype cache,
                 AttentionOpShape const& s, bool forward) {
  Walk const w = walk(k, s, k.tile_overhead + (forward ? 0 : d.attention.backward_overhead));
  double const dims = padded(as_double(s.head_dim), as_double(k.head_tile)),
               value_dims = padded(as_double(s.value_dim), as_double(k.value_tile));
  // Backward makes the scores again and four gradients' products.
  double const products = forward ? dims + value_dims : (3 * dims + 2 * value_dims) / d.attention.backward_share;
  double const processors = as_double(d.processors);
  double const rate = d.peak_tflops.at(precision) * 1e6 * k.efficiency / processors;
  double const key_us = 2 * as_double(k.query_tile) * products / rate;
  double const all = w.tiles * w.keys * key_us / processors, longest = w.longest * key_us;
  double const compute = std::max(all, longest) + k.tail * std::min(all, longest);
  double const bytes = as_double(static_cast<std::int64_t>(bytes_of(precision))) * elements(s, true, false, true) +
                       as_double(static_cast<std::int64_t>(bytes_of(cache))) * elements(s, false, true, false);
  return std::max(compute, (forward ? 1 : 2) * bytes / (d.memory_gb_per_s * bytes_per_us));
}

}  // namespace

AttentionKernel const& attention_kernel(AttentionProfile const& profile, Dtype precision, Dtype cache, double head_dim,
                                        double value_dim) {
  VALIDATE(!profile.kernels.empty(), "the device has no attention kernels");
  AttentionKernel const* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  auto const consider = [&](Dtype p, Dtype c) {
    for (AttentionKernel const& k : profile.kernels) {
      if (k.precision != p || k.cache != c) continue;
      double const head = as_double(k.head_tile), value = as_double(k.value_tile);
      bool const holds = head >= head_dim && value >= value_dim;
      // One that is too small works by steps: any that holds them goes first, then the largest.
      double const size = holds ? head + value : 1e9 - head - value;
      if (size < least) least = size, best = &k;
    }
  };
  for (auto const& [p, c] :
       {std::pair{precision, cache}, {precision, precision}, {Dtype::bf16, cache}, {Dtype::bf16, Dtype::bf16}}) {
    consider(p, c);
    if (best) return *best;
  }
  return profile.kernels.front();
}

double attention_us(DeviceProfile const& device, Dtype precision, AttentionOpShape const& s, bool forward) {
  AttentionKernel const& k =
      attention_kernel(device.attention, precision, precision, as_double(s.head_dim), as_double(s.value_dim));
  return kernel_us(device, k, precision, precision, s, forward);
}

double prompt_attention_us(DeviceProfile const& device, Dtype precision, Dtype cache, AttentionOpShape const& s) {
  AttentionKernel const& k =
      attention_kernel(device.attention, precision, cache, as_double(s.head_dim), as_double(s.value_dim));
  // The pass before reads and writes the new queries, keys and values in 16 bits; what the cache still holds is fast.
  AttentionOpShape fresh = s;
  fresh.seq_k = s.seq_q;
  double const bytes = 2 * elements(fresh, true, true, false);
  double const left =
      device.cache_mb > 0 ? std::clamp((bytes / (device.cache_mb * 1e6) - kept_from) / (1 - kept_from), 0.0, 1.0) : 1.0;
  double const pass = k.prepare_traffic * bytes / (device.memory_gb_per_s * bytes_per_us) *
                      (k.cached_share + (1 - k.cached_share) * left);
  return k.launch_us + kernel_us(device, k, precision, cache, s, true) + pass;
}

}  // namespace shardbench
