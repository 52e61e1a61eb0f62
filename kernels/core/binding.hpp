#pragma once
#include <array>
#include <cstdint>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// A tensor, or a slice of one, as a kernel gets it.
struct Operand {
  void* data = nullptr;  ///< nullptr: the op does without
  Dtype dtype = Dtype::f32;
  std::int64_t stride = 0;  ///< elements between rows of a slice; 0: nothing is said
  std::int64_t cols = 0;    ///< of the whole tensor
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Elements between rows, `dense` where nothing is said.
  std::int64_t row_stride(std::int64_t dense) const { return stride > 0 ? stride : dense; }
  /// Elements between rows, those of the whole tensor where nothing is said.
  std::int64_t row_stride() const { return row_stride(cols); }
};

/// What the optimizer needs beyond its tensors.
struct OptimizerSettings {
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0.1f;
};

/// What an op needs besides its shape to become the arguments of a kernel: where its operands lie and where in the run
/// it stands.
struct Binding {
  static constexpr std::size_t most_operands = 8;
  std::array<Operand, most_operands> inputs{}, outputs{};
  Dtype precision = Dtype::f32;                  ///< of activations and weights
  bool adds = false;                             ///< to its output
  std::int64_t position = 0;                     ///< tokens that the KV cache holds before this step
  std::int64_t context = 0;                      ///< the most that it holds
  std::int64_t micro_batch = 1;                  ///< samples of a microbatch
  std::int64_t seq = 0;                          ///< of a whole sample
  std::int64_t first_sample = 0;                 ///< global number of this microbatch's first
  std::int64_t vocab = 0;                        ///< without padding
  std::int64_t routed_rows = -1;                 ///< rows that routing brought here; -1: it has no say
  std::int32_t const* expert_offsets = nullptr;  ///< [experts + 1] on the host, where each expert's rows begin
  OptimizerSettings optimizer{};
  std::int64_t step = 0;     ///< optimizer steps, from 1
  std::uint64_t random = 0;  ///< seed of this step's dropout

  Operand const& in(std::size_t i) const { return inputs[i]; }
  Operand const& out(std::size_t i) const { return outputs[i]; }
  /// Rows that routing brought here, or `rows` where it has no say.
  std::int64_t rows_here(std::int64_t rows) const { return routed_rows >= 0 ? routed_rows : rows; }
};

}  // namespace shardbench
