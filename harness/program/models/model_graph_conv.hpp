#pragma once
#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// The detector's blocks on the tape, with both heads when `with_heads`. Where the graph ends the gradients
/// are drawn: the detection loss and its assignment of boxes are no part of a step.
void build_yolo(Tape& tape, YoloConfig const& config, bool with_heads);

}  // namespace shardbench
