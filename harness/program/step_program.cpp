#include "harness/program/step_program.hpp"

#include <algorithm>

namespace shardbench {

std::string_view to_string(TensorRole role) {
  constexpr EnumNames<TensorRole> names{"parameter", "gradient",   "optimizer", "buffer",
                                        "kv_cache",  "activation", "temporary"};
  return names[role];
}

std::string_view to_string(OpKind kind) {
#define SHARDBENCH_NAME(name, ...) #name,
  constexpr std::string_view names[] = {SHARDBENCH_EACH_OPERATION(SHARDBENCH_NAME, SHARDBENCH_NAME)
                                            SHARDBENCH_EACH_COMMUNICATION(SHARDBENCH_NAME)};
#undef SHARDBENCH_NAME
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
