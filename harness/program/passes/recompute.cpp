#include "harness/program/passes/recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "harness/program/graph/module_scope.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

LabelId recompute_label(StepProgram& p, LabelId label) {
  OpLabel copy = p.labels[label];
  copy.phase = "recompute";
  auto const same = [&](OpLabel const& l) {
    return l.name == copy.name && l.phase == copy.phase && l.kind == copy.kind && l.axis == copy.axis;
  };
  auto const it = std::ranges::find_if(p.labels, same);
  return it == p.labels.end() ? p.labels.add(copy) : LabelId(it - p.labels.begin());
}

/// A whole layer, or a stretch of ops within one.
struct PlaceOfRepeat {
  bool whole = false;
  std::int32_t number = -1;
  auto operator<=>(PlaceOfRepeat const&) const = default;
};

/// Forward ops that backward runs again, all of them when the first of their results is needed.
struct Repeat {
  std::vector<Op> ops;
  bool done = false;
};

class Repeater {
 public:
  Repeater(StepProgram& p, Cut const& cut, Chunk const& chunk, std::vector<Op> const& forward, bool apart)
      : p_(p), apart_(apart) {
    for (Op const& op : forward) {
      PlaceOfRepeat place{false, op.stretch};
      if (repeats_whole_layer(cut, chunk, op.layer)) place = {true, op.layer};
      if (place.number >= 0) add(place, op);
    }
    check_writers(forward, cut, chunk);
  }

  bool empty() const { return repeats_.empty(); }

  void insert_into(std::vector<Op>& backward) {
    for (Op& op : backward) {
      // A layer is repeated as its backward begins, whatever that reads first (as a checkpoint of the layer does).
      if (auto const whole = repeats_.find({true, op.layer}); whole != repeats_.end()) run(whole->second);
      each_read(op, [&](Repeat& r) { run(r); });
      for (auto* refs : {&op.inputs, &op.after, &op.outputs}) rename(*refs);
      if (op.stream == StreamId::compute)
        op.after.insert(op.after.end(), unread_.begin(), unread_.end()), unread_.clear();
      out_.push_back(std::move(op));
    }
    backward = std::move(out_);
  }

 private:
  void add(PlaceOfRepeat place, Op const& op) {
    Repeat& repeat = repeats_[place];
    Op copy = op;
    copy.stretch = -1;
    copy.flop_class = FlopClass::recompute;
    copy.part = BackwardPart::input;  // also what weight gradients alone read, so that what it is made of can go
    copy.label = recompute_label(p_, op.label);
    if (repeat.ops.empty() && copy.kind == OpKind::norm_forward && std::get<NormShape>(copy.shape).residual) {
      // What is normed is the sum that the forward pass kept; only the norm is repeated.
      std::get<NormShape>(copy.shape).residual = false;
      copy.inputs[0] = copy.outputs[3];
      copy.inputs[1] = copy.outputs[3] = TensorRef{};
    }
    for (TensorRef const& ref : copy.outputs)
      if (ref.valid()) writer_[p_.storage_of(ref.id)] = place;
    repeat.ops.push_back(std::move(copy));
  }

  /// A tensor that several ops make piece by piece, or in place, must be repeated by all of them or by none.
  void check_writers(std::vector<Op> const& forward, Cut const& cut, Chunk const& chunk) const {
    for (Op const& op : forward) {
      PlaceOfRepeat place{false, op.stretch};
      if (repeats_whole_layer(cut, chunk, op.layer)) place = {true, op.layer};
      for (TensorRef const& ref : op.outputs) {
        auto const found = ref.valid() ? writer_.find(p_.storage_of(ref.id)) : writer_.end();
        VALIDATE(found == writer_.end() || found->second == place,
                 fmt::format("'{}' is made by ops of which recomputation repeats only some", p_.tensors[ref.id].name));
      }
    }
  }

  /// Calls visit(repeat) for each repeat that makes what the op reads or waits for.
  template <class Visit>
  void each_read(Op const& op, Visit&& visit) {
    for (auto const* refs : {&op.inputs, &op.after})
      for (TensorRef const& ref : *refs)
        if (ref.valid())
          if (auto const found = writer_.find(p_.storage_of(ref.id)); found != writer_.end())
            if (!found->second.whole) visit(repeats_.at(found->second));
  }

  /// A tensor of backward alone for one of forward's. Where the parts of backward run apart, what one of them makes
  /// again for the other would else be kept from forward on.
  TensorId copy_of(TensorId id) {
    Tensor copy = p_.tensors[id];
    copy.role = TensorRole::temporary;
    if (copy.storage == no_tensor) return p_.tensors.add(std::move(copy));
    if (!renamed_.contains(copy.storage)) renamed_[copy.storage] = copy_of(copy.storage);
    copy.storage = renamed_[copy.storage];
    return p_.tensors.add(std::move(copy));
  }

  void rename(std::vector<TensorRef>& refs) const {
    for (TensorRef& ref : refs)
      if (auto const found = ref.valid() ? renamed_.find(ref.id) : renamed_.end(); found != renamed_.end())
        ref.id = found->second;
  }

  void run(Repeat& r) {
    if (std::exchange(r.done, true)) return;
    for (Op& op : r.ops) {
      each_read(op, [&](Repeat& other) { run(other); });
      if (apart_)
        for (TensorRef const& ref : op.outputs)
          if (ref.valid() && !renamed_.contains(ref.id)) renamed_[ref.id] = copy_of(ref.id);
      for (auto* refs : {&op.inputs, &op.after, &op.outputs}) rename(*refs);
      out_.push_back(op);
    }
    // What ends in a collective repeats that too, though nobody reads it: backward computes when it is over.
    if (Op const& last = out_.back(); last.stream != StreamId::compute) unread_ = last.outputs;
  }

  StepProgram& p_;
  std::map<PlaceOfRepeat, Repeat> repeats_;
  std::map<TensorId, PlaceOfRepeat> writer_;  ///< by root
  std::map<TensorId, TensorId> renamed_;      ///< what was made again, as backward names it
  std::vector<Op> out_;
  std::vector<TensorRef> unread_;
  bool apart_;
};

}  // namespace

void add_recompute(StepProgram& p, Cut const& cut, Chunk const& chunk, std::vector<Op> const& forward,
                   std::vector<Op>& backward, bool apart) {
  Repeater repeater(p, cut, chunk, forward, apart);
  if (!repeater.empty()) repeater.insert_into(backward);
}

}  // namespace shardbench
