#pragma once
#include "harness/program/analysis/memory_plan.hpp"
#include "kernels/core/arena.hpp"

namespace shardbench {

/// Turns operands into addresses in the arena, for one microbatch.
class Operands {
 public:
  Operands(StepProgram const& program, MemoryPlan const& plan, Arena const& arena, std::int32_t microbatch,
           std::int64_t position = 0)
      : program_(program), plan_(plan), arena_(arena), microbatch_(microbatch), position_(position) {}

  /// Address of the operand's first element; nullptr for an operand that is not there.
  void* at(TensorRef const& ref) const {
    if (!ref.valid()) return nullptr;
    auto const bytes = static_cast<std::int64_t>(bytes_of(dtype(ref)));
    return arena_.at(plan_.offset_of(program_, ref.id, microbatch_) + ref.offset * bytes);
  }
  template <class T>
  T* as(TensorRef const& ref) const {
    return static_cast<T*>(at(ref));
  }
  Dtype dtype(TensorRef const& ref) const { return program_.tensors[ref.id].dtype; }
  /// The operand as a kernel gets it.
  Operand operand(TensorRef const& ref) const {
    if (!ref.valid()) return {};
    return {at(ref), dtype(ref), ref.stride, program_.tensors[ref.id].cols};
  }
  StepProgram const& program() const { return program_; }
  /// Tokens that the KV cache holds before this step.
  std::int64_t position() const { return position_; }
  std::int32_t microbatch() const { return microbatch_; }

 private:
  StepProgram const& program_;
  MemoryPlan const& plan_;
  Arena const& arena_;
  std::int32_t microbatch_;
  std::int64_t position_;
};

}  // namespace shardbench
