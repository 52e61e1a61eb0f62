#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// How a tensor lies along the tensor (and context) axis, in words, and into how many pieces rows and columns are cut.
struct TensorPlacement {
  std::string words = "replicate";
  std::int64_t row_parts = 1, col_parts = 1;
};

/// An op of a layer, and how its result lies.
struct PlacedOp {
  Op const* op = nullptr;
  TensorPlacement placement;
};

/// Why a collective is there, and which op causes it.
struct CollectiveReason {
  std::string why, caused_by;
};

/// The forward and backward ops of a layer in one rank's program, with how each result lies: forward values as the
/// graph placed them, gradients as follows from the cut of the weights that they passed.
class LayerOps {
 public:
  LayerOps(StepProgram const& program, std::int32_t layer);
  std::vector<PlacedOp> const& forward() const { return forward_; }
  std::vector<PlacedOp> const& backward() const { return backward_; }
  /// The weight that a product reads; none for others.
  TensorId weight_of(Op const& op) const;
  TensorPlacement weight_placement(TensorId weight) const;
  /// Of a collective among these ops.
  CollectiveReason reason(PlacedOp const& collective) const;

 private:
  struct Cut {
    bool outputs = false, inputs = false;
  };
  Cut cut_of(TensorId weight) const;
  std::vector<PlacedOp> collect(bool forward);
  TensorPlacement everywhere() const;
  bool is_routed(Op const& op) const;
  TensorPlacement placed(Op const& op, bool forward) const;
  TensorPlacement of_value(TensorId id) const;
  TensorPlacement of_gradient(Op const& op) const;
  Op const* last_product_before(Op const& op, bool forward) const;
  Op const* product_after(Op const& op, bool forward) const;
  std::string name_of(Op const& op) const { return program_.labels[op.label].name; }
  CollectiveReason forward_reason(Op const& op) const;
  CollectiveReason backward_reason(Op const& op) const;

  StepProgram const& program_;
  std::int32_t layer_;
  std::vector<PlacedOp> forward_, backward_;
  std::map<std::int32_t, TensorPlacement> lies_;  ///< of gradients met so far, by storage
};

/// Why data parallelism moves what this op moves.
std::string data_reason(StepProgram const& program, Op const& op);

}  // namespace shardbench
