#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/program/graph/layout.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// A value of the forward graph: its place on the tape.
struct Value {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
};

/// A block of numbers as it lies in this rank.
struct Matrix {
  TensorRef ref;
  std::int64_t rows = 0, cols = 0;
};

/// A gradient as far as it is known, and how it lies.
struct Gradient {
  TensorRef ref;
  Layout layout;
};

/// What the tape knows of a value.
struct ValueState {
  std::string name;
  TensorRef ref;
  std::int64_t rows = 0, cols = 0;  ///< local
  std::int64_t global_cols = 0;
  Layout layout;
  std::int32_t layer = -1;    ///< of the op that made it
  std::int32_t stretch = -1;  ///< of the op that made it
  std::optional<Gradient> gradient{};
  Value gathered_from{};    ///< the sequence-cut value this one was gathered from
  Value moved{};            ///< this value in the layout that was asked for last
  ParameterId late_bias{};  ///< bias that `join` adds: private channels have it after the synchronisation
  Matrix matrix() const { return {ref, rows, cols}; }
};

/// The graph of one chunk: the forward ops that were emitted so far, and for each of them a step that emits its
/// backward ops when derive_backward walks the steps from the last to the first. Layers are free functions over it:
/// each says where its operands must lie, `redistribute` makes it so, and each redistribution has the dual one as its
/// backward. Tensors, parameters and labels go into the program.
class Tape {
 public:
  Tape(StepProgram& program, Strategy const& strategy, Experiment const& experiment);

  // Where in the model the next ops are.
  /// Forgets the values and ops of the chunk before, and starts the forward ops of `chunk` outside any layer.
  void begin_chunk(std::int32_t chunk);
  /// The chunk being built.
  Chunk& chunk() { return program.chunks[chunk_]; }
  /// -1: outside the blocks.
  void set_layer(std::int64_t layer) { layer_ = static_cast<std::int32_t>(layer); }
  std::int32_t layer() const { return layer_; }
  /// Phase in the labels of the ops made from now on ("forward").
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  /// What backward repeats of the forward ops made from now on, as one; -1: nothing of them.
  std::int32_t set_stretch(std::int32_t stretch) { return std::exchange(stretch_, stretch); }
  /// A stretch that no op is of yet.
  std::int32_t new_stretch() { return stretches_++; }
  std::int32_t stretch() const { return stretch_; }
  /// A name in the current layer ("layers.3.mlp.up").
  std::string qualified(std::string const& name) const;
  /// How activations lie between blocks.
  Layout const& block_layout() const { return block_; }

  // Tensors and values.
  TensorId new_tensor(std::string const& name, TensorRole role, Dtype dtype, std::int64_t rows, std::int64_t cols);
  /// A tensor of the current layer that lives within a microbatch, in the program's precision unless told.
  TensorRef temporary(std::string const& name, std::int64_t rows, std::int64_t cols);
  TensorRef temporary(std::string const& name, Dtype dtype, std::int64_t rows, std::int64_t cols);
  /// Rows of a tensor as an operand whose uses are ordered apart from its other slices'; an op that uses the whole
  /// tensor waits for all of them.
  TensorRef slice_apart(TensorRef whole, DimRange rows);
  /// A value in a temporary of its own; `global_cols`: of all ranks together, `cols` unless given.
  Value value(std::string const& name, std::int64_t rows, std::int64_t cols, Layout const& layout,
              std::int64_t global_cols = 0);
  /// A value that lies in a tensor that there is.
  Value value_of(TensorRef ref, std::string const& name, std::int64_t rows, std::int64_t cols, Layout const& layout,
                 std::int64_t global_cols = 0);
  ValueState& operator[](Value v) { return values_[v.index]; }
  /// Ends the forward ops with x in `output`: the op that made x writes there, or, behind a collective, a copy does.
  void end_in(Value x, TensorId output);

  // Ops.
  /// An op of the current chunk, layer and phase, which the caller places.
  Op make_op(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
             std::vector<TensorRef> outputs);
  Op make_collective(OpKind kind, GroupId group, std::int64_t count, Dtype dtype, std::string const& name,
                     TensorRef from, TensorRef to);
  /// Appends to the forward ops, or to the backward ops while those are derived.
  Op& emit(Op op);
  Op& emit(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
           std::vector<TensorRef> outputs);
  /// In the program's precision.
  Op& emit_collective(OpKind kind, GroupId group, std::int64_t count, std::string const& name, TensorRef from,
                      TensorRef to);
  std::vector<Op> take_forward() { return std::move(forward_); }
  std::vector<Op> take_backward() { return std::move(backward_); }

  // Layouts and gradients.
  /// x as it lies in `to`.
  Value redistribute(Value x, Layout const& to, std::string const& name);
  /// Tapes what emits the backward ops of the op that was just emitted.
  void on_backward(std::function<void()> step);
  /// The same, for a step that begins with the gradient of y.
  void on_backward(Value y, std::function<void(TensorRef)> step);
  /// Adds a term to the gradient of v.
  void accumulate(Value v, TensorRef gradient, Layout const& layout);
  /// A term that lies as v does.
  void accumulate(Value v, TensorRef gradient) { accumulate(v, gradient, (*this)[v].layout); }
  /// The gradient of v, whole and as its value's dual lies; invalid when nothing depends on v.
  TensorRef take_gradient(Value v);
  /// Walks the tape from its end; afterwards the backward ops are complete.
  void derive_backward();

  // Parameters.
  ParameterId add_parameter(Parameter parameter);
  /// A parameter of the chunk being built by its global name; invalid where there is none.
  ParameterId find_parameter(std::string const& name) const;
  /// As operands; invalid for an invalid parameter.
  TensorRef weight(ParameterId parameter) const;
  TensorRef gradient(ParameterId parameter) const;
  /// Marks an op as writer of a parameter's gradient, a sum over rows that lie in `rows_layout`: the first in a
  /// backward pass overwrites, later ones add.
  void writes_gradient(Op& op, ParameterId parameter, Layout const& rows_layout);

  StepProgram& program;
  Strategy const& strategy;
  Experiment const& experiment;
  ModelConfig const& model;
  /// [parameter]: the axes along which the gradient is a partial sum and must be reduced.
  std::vector<EnumArray<Axis, bool>> gradient_partial;

 private:
  LabelId label(std::string const& name, OpKind kind, Axis axis);

  Layout block_{};
  std::map<TensorId, std::vector<TensorRef>> slices_;  ///< of tensors that have slices ordered apart
  std::deque<ValueState> values_;                      ///< a deque: states are held by reference while values are added
  std::vector<std::pair<std::int32_t, std::function<void()>>> steps_;  ///< layer, backward step
  std::vector<Op> forward_, backward_;
  std::vector<Op>* out_ = nullptr;
  std::string phase_ = "forward";
  std::int32_t chunk_ = 0, layer_ = -1, stretch_ = -1, stretches_ = 0;
  std::vector<bool> gradient_written_;  ///< by parameter, in the chunk being built
  std::map<std::pair<std::string, std::int32_t>, ParameterId> parameter_by_name_;  ///< name and chunk
  std::map<std::tuple<std::string, std::string, OpKind, Axis>, LabelId> label_ids_;
};

/// Elements `first` and on of an operand, rows as wide as the op that takes it says.
inline TensorRef behind(TensorRef x, std::int64_t first) { return {x.id, x.offset + first, 0}; }

/// Columns `first` and on of rows that lie `stride` apart.
inline TensorRef columns(TensorRef x, std::int64_t first, std::int64_t stride) {
  return {x.id, x.offset + first, stride};
}

}  // namespace shardbench
