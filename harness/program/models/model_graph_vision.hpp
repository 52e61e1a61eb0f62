#pragma once
#include "harness/program/graph/graph_builder.hpp"

namespace shardbench {

/// Patches, class token and positions of a vision transformer (Dosovitskiy et al. 2021); CLIP's towers add a norm.
Value build_image_embedding(GraphBuilder& builder, ModelConfig const& model);

/// Final norm, class token (or mean over patches), projection, classifier and cross-entropy over one label an image.
void build_image_head(GraphBuilder& builder, ModelConfig const& model, StepProgram const& program, Value base,
                      Value pending);

}  // namespace shardbench
