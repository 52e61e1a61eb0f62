#include "harness/program/graph/module_scope.hpp"

namespace shardbench {

namespace {

/// Whether the layer is among those of its chunk that --recompute-layers names. Blocks of prediction layers follow the
/// last.
bool among_recomputed(Cut const& c, Chunk const& chunk, std::int64_t layer) {
  return c.recompute_layers == 0 || chunk.layers_before + layer - chunk.first_layer < c.recompute_layers;
}

/// Whether the cut repeats a part of a layer.
bool repeats(Cut const& c, RecomputeModules modules, RecomputeModule m) {
  // Selective recomputation alone repeats the attention core (Korthikanti et al. 2022).
  if (modules.empty()) return c.recompute == Recompute::selective && m == RecomputeModule::core_attn;
  bool const of_activations = m == RecomputeModule::moe_act && modules.has(RecomputeModule::activation);
  return modules.has(m) || of_activations;
}

bool repeats_in(Cut const& c, Chunk const& chunk, std::int64_t layer, RecomputeModule m) {
  if (layer < 0 || repeats_whole_layer(c, chunk, layer) || !repeats(c, c.recompute_modules, m)) return false;
  // Beside layers that are repeated whole, the parts are those of the others.
  return c.recompute == Recompute::full || among_recomputed(c, chunk, layer);
}

}  // namespace

ModuleScope::ModuleScope(Tape& t, RecomputeModule module) : tape_(t), before_(t.stretch()) {
  if (before_ < 0 && t.experiment.phase == PhaseKind::train &&
      repeats_in(t.experiment.cut, t.chunk(), t.layer(), module))
    t.set_stretch(t.new_stretch());
}

bool repeats_whole_layer(Cut const& c, Chunk const& chunk, std::int64_t layer) {
  return c.recompute == Recompute::full && layer >= 0 && among_recomputed(c, chunk, layer);
}

}  // namespace shardbench
