#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/experiment.hpp"

namespace shardbench {

/// Layers of each of `pieces`, the leftovers on the inner ones (case P04). An embedding and a head that count as layers
/// each take the place of one, on the first and the last piece, which may be left with none. Throws IllegalConfig where
/// a piece between would have none.
std::vector<std::int64_t> split_layers(std::int64_t layers, std::int64_t pieces, bool embedding_counts = false,
                                       bool head_counts = false);

/// Layers of each piece of the model under a cut: even, or as the knobs of first and last stage say. Throws
/// IllegalConfig naming the knob that does not suit the model.
std::vector<std::int64_t> piece_layers(ModelConfig const& model, Cut const& cut);
/// The same, or as the experiment's layout says.
std::vector<std::int64_t> piece_layers(Experiment const& experiment);

/// What a piece of a layout holds.
struct LayoutPiece {
  std::int64_t layers = 0, predictions = 0;
  bool embedding = false, head = false;
};

/// Reads a layout as Megatron writes it (--pipeline-model-parallel-layout): E embedding, t layer, m multi-token
/// prediction, L loss; '|' ends a piece, *N repeats the letter or the (...) before it, commas and spaces mean nothing.
/// Throws InputError with the place of what is wrong.
std::vector<LayoutPiece> parse_pipeline_layout(std::string_view text);

/// Why a layout does not suit the experiment; empty where it does.
std::string pipeline_layout_problem(Experiment const& experiment, std::vector<LayoutPiece> const& pieces);

}  // namespace shardbench
