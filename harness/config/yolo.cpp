#include "harness/config/yolo.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace shardbench {
namespace {

/// Appends the convolutions of one block; the methods are the building rules of the family.
class BlockBuilder {
 public:
  BlockBuilder(std::string name, std::string kind, std::int64_t size) : size_(size) {
    block_.name = std::move(name);
    block_.kind = std::move(kind);
    block_.size = size;
  }

  YoloBlock finish(std::int64_t out_channels) && {
    block_.out_channels = out_channels;
    return std::move(block_);
  }

  void repeat(std::int64_t count) { block_.repeats = count; }

  ConvLayer& conv(std::string const& name, std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return block_.convs.emplace_back(
        ConvLayer{.name = block_.name + '.' + name, .in = in, .out = out, .kernel = kernel, .out_size = size_});
  }

  void depthwise(std::string const& name, std::int64_t channels, bool activation = true) {
    ConvLayer& layer = conv(name, channels, channels, 3);
    layer.groups = channels;
    layer.activation = activation;
  }

  void bottleneck(std::string const& name, std::int64_t channels, double expansion) {
    auto const middle = static_cast<std::int64_t>(static_cast<double>(channels) * expansion);
    conv(name + ".first", channels, middle, 3);
    conv(name + ".second", middle, channels, 3);
  }

  void c3k(std::string const& name, std::int64_t channels) {
    std::int64_t const half = channels / 2;
    conv(name + ".split", channels, half, 1);
    conv(name + ".bypass", channels, half, 1);
    bottleneck(name + ".0", half, 1);
    bottleneck(name + ".1", half, 1);
    conv(name + ".join", 2 * half, channels, 1);
  }

  void psa(std::string const& name, std::int64_t channels, std::int64_t heads) {
    std::int64_t const key = channels / heads / 2;
    block_.heads = heads;
    conv(name + ".qkv", channels, channels + 2 * key * heads, 1).activation = false;
    depthwise(name + ".position", channels, false);
    conv(name + ".project", channels, channels, 1).activation = false;
    conv(name + ".up", channels, 2 * channels, 1);
    conv(name + ".down", 2 * channels, channels, 1).activation = false;
    std::int64_t const tokens = size_ * size_;
    block_.attention_flops += 2 * tokens * tokens * (key * heads + channels);
  }

  void c3k2(std::int64_t in, std::int64_t out, std::int64_t repeats, YoloInner inner, double expansion) {
    auto const c = static_cast<std::int64_t>(static_cast<double>(out) * expansion);
    block_.inner = inner;
    block_.repeats = repeats;
    conv("split", in, 2 * c, 1);
    for (std::int64_t i = 0; i < repeats; ++i) {
      std::string const name = "inner." + std::to_string(i);
      if (inner == YoloInner::deep) {
        c3k(name, c);
      } else {
        bottleneck(name, c, 0.5);
        if (inner == YoloInner::attention) psa(name + ".psa", c, std::max<std::int64_t>(c / 64, 1));
      }
    }
    conv("join", (2 + repeats) * c, out, 1);
  }

 private:
  YoloBlock block_;
  std::int64_t size_;
};

/// Walks backbone and head, keeping channels and feature-map size.
class Network {
 public:
  explicit Network(YoloConfig const& config) : config_(config), channels_(3), size_(config.image_size) {}
  std::vector<YoloBlock> build() &&;

 private:
  std::int64_t width(std::int64_t channels) const { return yolo_channels(config_, channels); }
  std::int64_t repeats(std::int64_t n) const {
    return n > 1 ? std::max<std::int64_t>(std::lround(static_cast<double>(n) * config_.depth), 1) : n;
  }
  std::string next_name() { return section_ + '.' + std::to_string(index_++); }

  void down(std::int64_t channels) {
    size_ /= 2;
    BlockBuilder builder(next_name(), "conv", size_);
    builder.conv("conv", channels_, width(channels), 3).stride = 2;
    take(std::move(builder), width(channels));
  }
  std::size_t c3k2(std::int64_t channels, std::int64_t n, YoloInner inner, double expansion = 0.5) {
    if (inner == YoloInner::plain && config_.deep_everywhere) inner = YoloInner::deep;
    BlockBuilder builder(next_name(), "c3k2", size_);
    builder.c3k2(channels_, width(channels), repeats(n), inner, expansion);
    return take(std::move(builder), width(channels));
  }
  /// The next block reads the output of block `index` too.
  void concat(std::size_t index) {
    channels_ += blocks_[index].out_channels;
    beside_.push_back(index);
  }
  void up_and_concat(std::size_t index) {
    size_ *= 2;
    upsample_ = true;
    concat(index);
  }
  /// The index of the block.
  std::size_t take(BlockBuilder&& builder, std::int64_t channels) {
    YoloBlock block = std::move(builder).finish(channels);
    if (!blocks_.empty()) block.inputs.push_back(blocks_.size() - 1);
    block.inputs.insert(block.inputs.end(), beside_.begin(), beside_.end());
    beside_.clear();
    block.upsample = std::exchange(upsample_, false);
    blocks_.push_back(std::move(block));
    channels_ = channels;
    return blocks_.size() - 1;
  }
  void sppf() {
    BlockBuilder builder(next_name(), "sppf", size_);
    builder.conv("reduce", channels_, channels_ / 2, 1).activation = false;
    builder.conv("join", 2 * channels_, channels_, 1);
    take(std::move(builder), channels_);
  }
  std::size_t c2psa() {
    std::int64_t const half = channels_ / 2;
    BlockBuilder builder(next_name(), "c2psa", size_);
    builder.repeat(repeats(2));
    builder.conv("split", channels_, 2 * half, 1);
    for (std::int64_t i = 0; i < repeats(2); ++i)
      builder.psa("psa." + std::to_string(i), half, std::max<std::int64_t>(half / 64, 1));
    builder.conv("join", 2 * half, channels_, 1);
    return take(std::move(builder), channels_);
  }
  void detect(std::array<std::size_t, 3> const& levels);

  YoloConfig config_;
  std::int64_t channels_, size_;
  std::string section_ = "backbone";
  int index_ = 0;
  std::vector<std::size_t> beside_;
  bool upsample_ = false;
  std::vector<YoloBlock> blocks_;
};

/// Two copies of box and class branches on each level: one-to-many (training only), one-to-one.
void Network::detect(std::array<std::size_t, 3> const& levels) {
  std::array<std::int64_t, 3> inputs{};
  for (std::size_t i = 0; i < levels.size(); ++i) inputs[i] = blocks_[levels[i]].out_channels;
  std::int64_t const box = std::max<std::int64_t>(16, inputs[0] / 4);
  std::int64_t const wide = std::max(inputs[0], config_.classes);
  YoloBlock all;
  all.name = all.kind = "detect";
  all.inputs.assign(levels.begin(), levels.end());
  for (bool const one_to_one : {false, true}) {
    for (std::size_t level = 0; level < inputs.size(); ++level) {
      BlockBuilder b("detect", "detect", config_.image_size / (std::int64_t{8} << level));
      std::string const prefix = (one_to_one ? "one_to_one." : "one_to_many.") + std::to_string(level);
      auto const last = [&](std::string const& name, std::int64_t in, std::int64_t out) {
        ConvLayer& layer = b.conv(name, in, out, 1);
        layer.batch_norm = layer.activation = false;
      };
      b.conv(prefix + ".box.0", inputs[level], box, 3);
      b.conv(prefix + ".box.1", box, box, 3);
      last(prefix + ".box.2", box, 4);
      b.depthwise(prefix + ".class.0", inputs[level]);
      b.conv(prefix + ".class.1", inputs[level], wide, 1);
      b.depthwise(prefix + ".class.2", wide);
      b.conv(prefix + ".class.3", wide, wide, 1);
      last(prefix + ".class.4", wide, config_.classes);
      for (ConvLayer& layer : std::move(b).finish(0).convs) {
        layer.inference = one_to_one;
        all.convs.push_back(std::move(layer));
      }
    }
  }
  all.out_channels = 4 + config_.classes;
  blocks_.push_back(std::move(all));
}

std::vector<YoloBlock> Network::build() && {
  down(64);
  down(128);
  c3k2(256, 2, YoloInner::plain, 0.25);
  down(256);
  std::size_t const p3 = c3k2(512, 2, YoloInner::plain, 0.25);
  down(512);
  std::size_t const p4 = c3k2(512, 2, YoloInner::deep);
  down(1024);
  c3k2(1024, 2, YoloInner::deep);
  sppf();
  std::size_t const p5 = c2psa();

  section_ = "head";
  index_ = 0;
  up_and_concat(p4);
  std::size_t const a = c3k2(512, 2, YoloInner::deep);
  up_and_concat(p3);
  std::size_t const n3 = c3k2(256, 2, YoloInner::deep);
  down(256);
  concat(a);
  std::size_t const n4 = c3k2(512, 2, YoloInner::deep);
  down(512);
  concat(p5);
  std::size_t const n5 = c3k2(1024, 1, YoloInner::attention);
  detect({n3, n4, n5});
  return std::move(blocks_);
}

}  // namespace

std::int64_t YoloBlock::parameters() const {
  std::int64_t sum = 0;
  for (ConvLayer const& layer : convs) sum += layer.parameters();
  return sum;
}

std::int64_t YoloBlock::flops(bool with_training_head) const {
  std::int64_t sum = attention_flops;
  for (ConvLayer const& layer : convs)
    if (layer.inference || with_training_head) sum += layer.flops();
  return sum;
}

std::vector<YoloBlock> yolo_blocks(YoloConfig const& config) { return Network(config).build(); }

std::int64_t yolo_channels(YoloConfig const& config, std::int64_t channels) {
  double const scaled = static_cast<double>(std::min(channels, config.channel_cap)) * config.width;
  return static_cast<std::int64_t>(std::ceil(scaled / 8)) * 8;
}

std::int64_t yolo_flops(YoloConfig const& config, bool with_training_head) {
  std::int64_t sum = 0;
  for (YoloBlock const& block : yolo_blocks(config)) sum += block.flops(with_training_head);
  return sum;
}

}  // namespace shardbench
