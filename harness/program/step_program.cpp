#include "harness/program/step_program.hpp"

#include <algorithm>

namespace shardbench {

std::string_view to_string(TensorRole role) {
  constexpr EnumNames<TensorRole> names{"parameter", "gradient",   "optimizer", "buffer",
                                        "kv_cache",  "activation", "temporary"};
  return names[role];
}

std::string_view to_string(OpKind kind) {
  constexpr std::string_view names[] = {"gemm",
                                        "grouped_gemm",
                                        "attention_forward",
                                        "attention_backward",
                                        "attention_merge",
                                        "norm_forward",
                                        "norm_backward",
                                        "rope",
                                        "activation_forward",
                                        "activation_backward",
                                        "embedding_forward",
                                        "embedding_backward",
                                        "cross_entropy_max",
                                        "cross_entropy_sum",
                                        "cross_entropy_loss",
                                        "cross_entropy_backward",
                                        "add",
                                        "column_sum",
                                        "copy_block",
                                        "scale",
                                        "adamw",
                                        "dropout",
                                        "square_sum",
                                        "clip_factor",
                                        "im2col",
                                        "col2im",
                                        "depthwise_forward",
                                        "depthwise_backward",
                                        "batch_norm_forward",
                                        "batch_norm_backward",
                                        "max_pool_forward",
                                        "max_pool_backward",
                                        "upsample_forward",
                                        "upsample_backward",
                                        "pool_rows_forward",
                                        "pool_rows_backward",
                                        "router_forward",
                                        "router_backward",
                                        "permute",
                                        "unpermute",
                                        "combine_weights",
                                        "expert_rows",
                                        "source_rows",
                                        "fetch_counts",
                                        "join_keys",
                                        "split_keys",
                                        "cache_append",
                                        "best_token",
                                        "pick_token",
                                        "all_reduce",
                                        "reduce_scatter",
                                        "all_gather",
                                        "all_to_all",
                                        "send",
                                        "receive",
                                        "ring_shift"};
  static_assert(std::size(names) == op_kind_count);
  return names[static_cast<std::size_t>(kind)];
}

bool is_communication(OpKind kind) { return kind >= OpKind::all_reduce && kind <= OpKind::ring_shift; }

Segment const* StepProgram::segment_of(ActionKind kind, std::int32_t chunk) const {
  for (Segment const& s : segments)
    if (s.kind == kind && (s.chunk == chunk || kind == ActionKind::optimizer)) return &s;
  return nullptr;
}

bool StepProgram::waits_for(Op const& later, Op const& op) const {
  bool waits = false;
  auto const meet = [&](TensorRef const& theirs) {
    waits = waits || std::ranges::any_of(op.outputs, [&](TensorRef const& mine) {
              return mine.valid() && storage_of(mine.id) == storage_of(theirs.id);
            });
  };
  each_operand(later, meet, meet);
  return waits;
}

}  // namespace shardbench
