#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/model_config.hpp"

namespace shardbench {

/// One convolution with its norm and activation, at the model's image size. Weights [out, in / groups, kernel, kernel].
struct ConvLayer {
  std::string name;  ///< "backbone.2.inner.0.first"
  std::int64_t in = 0, out = 0;
  std::int64_t kernel = 1, stride = 1, groups = 1;
  std::int64_t out_size = 0;  ///< height and width of its output
  bool batch_norm = true;     ///< scale and shift [out] each; else a bias [out]
  bool activation = true;     ///< SiLU
  bool inference = true;      ///< false: the one-to-many head, which only training has

  std::int64_t parameters() const { return out * (in / groups) * kernel * kernel + (batch_norm ? 2 * out : out); }
  /// 2 * multiply-adds of the convolution for one image.
  std::int64_t flops() const { return 2 * out * (in / groups) * kernel * kernel * out_size * out_size; }
};

/// What a C3k2 block repeats: a bottleneck, a C3k of two bottlenecks, or a bottleneck with attention after it.
enum class YoloInner : std::uint8_t { plain, deep, attention };

/// One numbered block of the network: what it is, what it reads, its convolutions in order and the attention it holds.
struct YoloBlock {
  std::string name;  ///< "backbone.4", "head.2", "detect"
  std::string kind;  ///< conv | c3k2 | sppf | c2psa | detect
  /// Blocks whose outputs it reads, by index, side by side (detect: one a level); empty: the image.
  std::vector<std::size_t> inputs;
  bool upsample = false;  ///< the first input is doubled in height and width
  YoloInner inner = YoloInner::plain;
  std::int64_t repeats = 1;  ///< inner blocks of c3k2, attention blocks of c2psa
  std::int64_t heads = 0;    ///< of the attention, where there is any
  std::int64_t size = 0;     ///< height and width of the output (detect: 0)
  std::int64_t out_channels = 0;
  std::vector<ConvLayer> convs;
  std::int64_t attention_flops = 0;  ///< of the score and value products, one image

  std::int64_t parameters() const;
  std::int64_t flops(bool with_training_head) const;
};

/// Every block of a YOLO26 detector, in order of execution, both heads included.
std::vector<YoloBlock> yolo_blocks(YoloConfig const& config);

/// Channels at width w: ceil(min(c, cap) * w / 8) * 8.
std::int64_t yolo_channels(YoloConfig const& config, std::int64_t channels);

/// Forward FLOPs (2 * multiply-adds) of one image; inference leaves the one-to-many head out.
std::int64_t yolo_flops(YoloConfig const& config, bool with_training_head);

}  // namespace shardbench
