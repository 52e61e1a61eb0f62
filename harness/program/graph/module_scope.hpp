#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// While it lives, ops are a part of a layer that backward may repeat: where the cut says so they become one stretch,
/// unless they are already in a larger one.
class ModuleScope {
 public:
  ModuleScope(Tape& t, RecomputeModule module);
  ~ModuleScope() { tape_.set_stretch(before_); }
  ModuleScope(ModuleScope const&) = delete;
  ModuleScope& operator=(ModuleScope const&) = delete;

 private:
  Tape& tape_;
  std::int32_t before_;
};

/// Whether a layer of a chunk is computed again as a whole.
bool repeats_whole_layer(Cut const& cut, Chunk const& chunk, std::int64_t layer);

}  // namespace shardbench
