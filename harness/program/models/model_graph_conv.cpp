#include "harness/program/models/model_graph_conv.hpp"

#include <fmt/format.h>

#include "harness/program/graph/convolution.hpp"
#include "harness/program/graph/residual.hpp"
#include "harness/program/graph/vision.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Builds one block; its convolutions are taken in the order in which yolo_blocks lists them.
class BlockGraph {
 public:
  BlockGraph(Tape& t, YoloBlock const& block) : t_(t), block_(block) {}

  Value build(std::vector<Value> const& inputs) {
    Value const x = inputs.size() == 1 ? inputs.front() : concat(t_, inputs, label("concat"));
    if (block_.kind == "conv") return conv(x);
    if (block_.kind == "c3k2") return c3k2(x);
    if (block_.kind == "sppf") return sppf(x);
    VALIDATE(block_.kind == "c2psa", "no graph for a block of kind " + block_.kind);
    return c2psa(x);
  }

  void detect(std::vector<Value> const& levels) {
    while (next_ < block_.convs.size())
      for (Value const& level : levels) {
        Value box = level, classes = level;
        std::string const name = block_.convs[next_].name;
        for (int i = 0; i < 3; ++i) box = conv(box);
        for (int i = 0; i < 5; ++i) classes = conv(classes);
        draw_gradient(t_, box, name + ".out");
        draw_gradient(t_, classes, name + ".class.out");
      }
  }

 private:
  std::string label(std::string const& what) const { return block_.kind + '.' + what; }

  Value conv(Value x) {
    ConvLayer const& layer = block_.convs.at(next_++);
    std::string const what = fmt::format("{}{}", layer.groups > 1 ? "depthwise" : "conv", layer.kernel);
    return shardbench::conv(t_, x, layer, label(what), !block_.inputs.empty());
  }

  Value bottleneck(Value x) {
    Value const y = conv(x);
    return add(t_, x, conv(y));
  }

  Value c3k(Value x) {
    Value branch = conv(x);
    Value const bypass = conv(x);
    for (int i = 0; i < 2; ++i) branch = bottleneck(branch);
    return conv(concat(t_, {branch, bypass}, label("concat")));
  }

  Value psa(Value x, std::int64_t width) {
    std::int64_t const key = width / block_.heads / 2;
    Value const qkv = conv(x);
    std::vector<Value> const parts = split(t_, qkv, {2 * key * block_.heads, width}, label("split"));
    Value const attended = attend_map(t_, parts[0], parts[1], block_.heads, label("attention"));
    Value const y = add(t_, attended, conv(parts[1]));
    Value const sum = add(t_, x, conv(y));
    Value const up = conv(sum);
    return add(t_, sum, conv(up));
  }

  Value c3k2(Value x) {
    std::int64_t const c = block_.convs.front().out / 2;
    std::vector<Value> kept = split(t_, conv(x), {c, c}, label("split"));
    for (std::int64_t i = 0; i < block_.repeats; ++i) {
      Value y = block_.inner == YoloInner::deep ? c3k(kept.back()) : bottleneck(kept.back());
      if (block_.inner == YoloInner::attention) y = psa(y, c);
      kept.push_back(y);
    }
    return conv(concat(t_, kept, label("concat")));
  }

  Value sppf(Value x) {
    std::vector<Value> kept{conv(x)};
    for (int i = 0; i < 3; ++i) kept.push_back(max_pool(t_, kept.back(), block_.size, 5, label("max_pool")));
    return add(t_, x, conv(concat(t_, kept, label("concat"))));
  }

  Value c2psa(Value x) {
    std::int64_t const c = block_.convs.front().out / 2;
    std::vector<Value> parts = split(t_, conv(x), {c, c}, label("split"));
    for (std::int64_t i = 0; i < block_.repeats; ++i) parts[1] = psa(parts[1], c);
    return conv(concat(t_, parts, label("concat")));
  }

  Tape& t_;
  YoloBlock const& block_;
  std::size_t next_ = 0;
};

}  // namespace

void build_yolo(Tape& t, YoloConfig const& config, bool with_heads) {
  std::vector<YoloBlock> const blocks = yolo_blocks(config);
  std::vector<Value> outputs;
  Value const images = image(t, config.image_size, config.image_size, 3);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    YoloBlock const& block = blocks[i];
    t.set_layer(static_cast<std::int64_t>(i));
    std::vector<Value> inputs;
    for (std::size_t const from : block.inputs) inputs.push_back(outputs[from]);
    if (inputs.empty()) inputs.push_back(images);
    if (block.upsample) inputs[0] = upsample(t, inputs[0], blocks[block.inputs[0]].size, 2, "upsample");
    BlockGraph graph(t, block);
    if (block.kind != "detect")
      outputs.push_back(graph.build(inputs));
    else if (with_heads)
      graph.detect(inputs);
    else
      for (std::size_t const from : block.inputs) draw_gradient(t, outputs[from], blocks[from].name + ".out");
  }
}

}  // namespace shardbench
