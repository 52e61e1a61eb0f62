#pragma once
#include "harness/program/graph/residual.hpp"

namespace shardbench {

/// Patches, class token and positions of a vision transformer (Dosovitskiy et al. 2021); CLIP's towers add a norm.
Value build_image_embedding(Tape& tape);

/// Final norm, class token (or mean over patches), projection, classifier and cross-entropy over one label an image.
void build_image_head(Tape& tape, Residual residual);

}  // namespace shardbench
