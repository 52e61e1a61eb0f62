#include "harness/simulate/stack_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace shardbench {
namespace {

/// Moves the data-parallel reductions of the last backward into the segment that runs before the optimizer.
void defer_reductions(StepProgram& p) {
  std::vector<Op> deferred;
  for (Segment& s : p.segments) {
    if (s.kind != ActionKind::backward && s.kind != ActionKind::backward_weight) continue;
    bool const runs = std::ranges::any_of(p.actions, [&](Action const& a) {
      return (a.kind == s.kind && a.chunk == s.chunk) ||
             (a.kind == ActionKind::pair && s.kind == ActionKind::backward && a.pair_chunk == s.chunk);
    });
    auto const reduces = [](Op const& op) { return op.stream == StreamId::dp && op.when == When::last; };
    for (Op const& op : s.ops)
      if (runs && reduces(op)) deferred.push_back(op);
    std::erase_if(s.ops, reduces);
  }
  if (deferred.empty()) return;
  auto const is_reduce = [](Segment const& s) { return s.kind == ActionKind::reduce && s.chunk == all_chunks; };
  auto found = std::ranges::find_if(p.segments, is_reduce);
  if (found == p.segments.end()) {
    p.segments.push_back({ActionKind::reduce, all_chunks, {}});
    found = p.segments.end() - 1;
    auto const optimizer = std::ranges::find(p.actions, ActionKind::optimizer, &Action::kind);
    p.actions.insert(optimizer, {.kind = ActionKind::reduce, .chunk = all_chunks});
  }
  for (Op& op : deferred) op.when = When::every;
  found->ops.insert(found->ops.begin(), deferred.begin(), deferred.end());
}

/// Moves the gathers of updated weights from behind the optimizer to the next step's first forward, which is this
/// one's: steps follow each other, and each layer then waits for its own weights alone.
void gather_with_forward(StepProgram& p) {
  for (Segment& optimizer : p.segments) {
    if (optimizer.kind != ActionKind::optimizer) continue;
    auto const gathers = [](Op const& op) { return op.kind == OpKind::all_gather && op.stream == StreamId::dp; };
    // Buckets are filled from the last parameter on, so what comes last here is needed first.
    for (Op const& op : optimizer.ops) {
      if (!gathers(op)) continue;
      auto const bucket = std::ranges::find(p.buckets, op.outputs[0].id, &Bucket::weights);
      for (Segment& s : p.segments) {
        if (s.kind != ActionKind::forward || bucket == p.buckets.end() || s.chunk != bucket->chunk) continue;
        s.ops.insert(s.ops.begin(), op)->when = When::first;
      }
    }
    std::erase_if(optimizer.ops, gathers);
  }
}

TensorId add_bytes(StepProgram& p, std::string name, double bytes, std::int32_t chunk) {
  Tensor t;
  t.name = std::move(name);
  t.role = TensorRole::temporary;
  t.dtype = Dtype::u8;
  t.rows = static_cast<std::int64_t>(std::ceil(bytes));
  t.cols = 1;
  t.expected_rows = static_cast<double>(t.rows);
  t.chunk = chunk;
  return p.tensors.add(std::move(t));
}

/// Adds a tensor that the forward op of a layer writes, in the first pass and when it is repeated, and the backward op
/// of the layer reads.
class Keeper {
 public:
  explicit Keeper(StepProgram& p) : p_(p) {}

  /// `again`: whether the repeated forward op makes the tensor anew, so that the first need not be kept.
  template <class Bytes>
  void keep(std::string const& what, OpKind forward, OpKind backward, bool again, Bytes bytes_of_op) {
    std::map<std::pair<std::int32_t, std::string>, TensorId> kept;
    for (Segment const& s : p_.segments) {
      if (s.kind != ActionKind::forward) continue;
      for (Op const& op : s.ops)
        if (double const bytes = op.kind == forward ? bytes_of_op(op) : 0; bytes > 0)
          kept[key(op)] = add_bytes(p_, fmt::format("layers.{}.{}.{}", op.layer, name(op), what), bytes, s.chunk);
    }
    for (Segment& s : p_.segments)
      for (Op& op : s.ops) {
        auto const found = kept.find(key(op));
        if (found == kept.end()) continue;
        if (op.kind == forward && (again || s.kind == ActionKind::forward)) op.outputs.push_back({found->second, 0, 0});
        if (op.kind == backward) op.inputs.push_back({found->second, 0, 0});
      }
  }

 private:
  std::string const& name(Op const& op) const { return p_.labels[op.label].name; }
  std::pair<std::int32_t, std::string> key(Op const& op) const {
    return {op.layer, op.label.valid() ? name(op) : std::string()};
  }

  StepProgram& p_;
};

double scores_of(Op const& op) {
  auto const& s = std::get<AttentionOpShape>(op.shape);
  return static_cast<double>(s.seq_q) * static_cast<double>(s.seq_k) * static_cast<double>(s.batch * s.heads);
}

/// Whether recomputation repeats what follows attention in its layer.
bool repeats_projection(StepProgram const& p) {
  return std::ranges::any_of(p.segments, [&](Segment const& s) {
    return std::ranges::any_of(s.ops, [&](Op const& o) {
      return o.flop_class == FlopClass::recompute && o.label.valid() && p.labels[o.label].name == "attention.out";
    });
  });
}

/// Elements that attention puts out, when it is recomputed without its layer.
double recomputed_output(StepProgram const& p, Op const& op) {
  auto const repeats = [&](OpKind kind) {
    return std::ranges::any_of(p.segments, [&](Segment const& s) {
      return std::ranges::any_of(s.ops,
                                 [&](Op const& o) { return o.flop_class == FlopClass::recompute && o.kind == kind; });
    });
  };
  auto const& s = std::get<AttentionOpShape>(op.shape);
  // A layer that is repeated as a whole makes it again.
  bool const selective = repeats(OpKind::attention_forward) && !repeats_projection(p);
  return selective ? static_cast<double>(s.seq_q * s.batch) * static_cast<double>(s.heads * s.value_dim) : 0;
}

double elements_of(Op const& op) {
  auto const& s = std::get<NormShape>(op.shape);
  return s.residual ? static_cast<double>(s.rows) * static_cast<double>(s.cols) : 0;
}

/// Keeps the mask of the dropout whose sum leaves a chunk, until the chunk's backward; sums inside a chunk go into the
/// norm that reads them.
void keep_leaving_masks(StepProgram& p, double bytes) {
  for (std::int32_t chunk = 0; chunk < static_cast<std::int32_t>(p.chunks.size()); ++chunk) {
    Op *adds = nullptr, *first = nullptr;
    for (Segment& s : p.segments) {
      if (s.chunk != chunk) continue;
      bool const forward = s.kind == ActionKind::forward;
      if (!forward && s.kind != ActionKind::backward && s.kind != ActionKind::backward_input) continue;
      for (Op& op : s.ops) {
        if (op.flop_class == FlopClass::recompute || op.stream != StreamId::compute) continue;
        if (forward && op.kind == OpKind::add) adds = &op;
        if (!forward && !first) first = &op;
      }
    }
    if (!adds || !first) continue;
    auto const& shape = std::get<BlockShape>(adds->shape);
    double const elements = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
    TensorRef const mask{add_bytes(p, fmt::format("chunk{}.dropout_mask", chunk), bytes * elements, chunk), 0, 0};
    adds->outputs.push_back(mask);
    first->inputs.push_back(mask);
  }
}

/// What the loss takes beside the logits: copies in its passes, and a softmax from its last forward pass on.
void add_loss_tensors(StepProgram& p, SoftwareStack const& stack) {
  std::map<std::string, TensorId> kept, copies;
  auto const bytes_of_logits = [](Op const& op, double each) {
    auto const& shape = std::get<CrossEntropyOpShape>(op.shape);
    return each * static_cast<double>(shape.tokens) * static_cast<double>(shape.columns);
  };
  for (Segment& s : p.segments)
    for (Op& op : s.ops) {
      std::string const name = op.label.valid() ? p.labels[op.label].name : std::string();
      auto const add = [&](std::string const& what, double each) {
        return TensorRef{add_bytes(p, name + what, bytes_of_logits(op, each), s.chunk), 0, 0};
      };
      if (op.kind == OpKind::cross_entropy_max && stack.loss_working_bytes > 0)
        op.outputs.push_back(add(".copy", stack.loss_working_bytes)),
            copies[name.substr(0, name.rfind(".max"))] = op.outputs.back().id;
      if (op.kind == OpKind::cross_entropy_loss) {
        if (copies.contains(name)) op.inputs.push_back({copies[name], 0, 0});
        if (stack.logits_bytes > 0)
          op.outputs.push_back(add(".softmax", stack.logits_bytes)), kept[name] = op.outputs.back().id;
      }
      if (op.kind != OpKind::cross_entropy_backward) continue;
      if (kept.contains(name)) op.inputs.push_back({kept[name], 0, 0});
      if (stack.loss_working_bytes > 0) op.outputs.push_back(add(".gradient", stack.loss_working_bytes));
    }
}

/// Experts whose outputs are weighted before they return: the gradient of the weights needs none of what returned.
void merge_weights(StepProgram& p) {
  for (Segment& s : p.segments)
    for (Op& op : s.ops)
      if (op.kind == OpKind::combine_weights && op.layer >= 0) op.inputs[1] = op.inputs[0];
}

/// The dtype of so many bytes.
Dtype dtype_of(std::int64_t bytes) { return bytes == 1 ? Dtype::u8 : bytes == 2 ? Dtype::bf16 : Dtype::f32; }

void narrow_moments(StepProgram& p, std::int64_t bytes) {
  for (Bucket const& b : p.buckets)
    for (TensorId const id : {b.exp_avg, b.exp_avg_sq})
      if (id.valid()) p.tensors[id].dtype = dtype_of(bytes);
}

/// Inputs of activations that only activations read in backward are kept narrow.
void narrow_activation_inputs(StepProgram& p, std::int64_t bytes) {
  std::vector<bool> read(p.tensors.size());
  auto const activates = [](Op const& op) {
    return op.kind == OpKind::activation_forward || op.kind == OpKind::activation_backward;
  };
  for (Segment const& s : p.segments)
    for (Op const& op : s.ops)
      for (TensorRef const& ref : op.inputs)
        if (ref.valid() && !activates(op)) read[p.storage_of(ref.id)] = true;
  for (Segment const& s : p.segments)
    for (Op const& op : s.ops)
      if (op.kind == OpKind::activation_forward)
        if (Tensor& t = p.tensors[p.storage_of(op.inputs[0].id)]; !read[p.storage_of(op.inputs[0].id)])
          t.dtype = dtype_of(bytes);
}

bool runs_backward(Segment const& s) {
  return s.kind == ActionKind::backward || s.kind == ActionKind::backward_input ||
         s.kind == ActionKind::backward_weight;
}

/// A stack whose linear layers run in fp8 keeps their inputs as the casts it made of them: what forward writes and
/// backward hands to products alone takes a byte an element. (Its weights are two such copies, one transposed, and so
/// take what bf16 takes.)
void keep_casts(StepProgram& p, Dtype linear) {
  std::vector<bool> written(p.tensors.size()), product(p.tensors.size()), other(p.tensors.size());
  auto const mark = [&](std::vector<bool>& set, TensorRef const& ref) {
    if (ref.valid()) set[p.storage_of(ref.id)] = true;
  };
  for (Segment const& s : p.segments)
    for (Op const& op : s.ops) {
      bool const multiplies = op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm;
      // What sequence parallelism cut is gathered for the product.
      bool const gathers = op.kind == OpKind::all_gather && op.stream == StreamId::tp;
      if (s.kind == ActionKind::forward && op.layer >= 0)
        for (TensorRef const& ref : op.outputs) mark(written, ref);
      if (!runs_backward(s)) continue;
      for (TensorRef const& ref : op.inputs)
        mark(multiplies && op.layer >= 0 ? product : gathers ? written : other, ref);
    }
  for (Chunk const& chunk : p.chunks)
    for (TensorId const id : {chunk.input, chunk.output})
      if (id != no_tensor) other[p.storage_of(id)] = true;
  for (std::size_t id = 0; id < p.tensors.size(); ++id) {
    Tensor& t = p.tensors[id];
    bool const activation = t.role == TensorRole::activation || t.role == TensorRole::temporary;
    if (activation && written[id] && product[id] && !other[id] && t.dtype == p.precision) t.dtype = linear;
  }
}

/// The same of gradients that wait for the products of weight gradients, where those run apart.
void keep_gradient_casts(StepProgram& p, Dtype linear) {
  std::vector<bool> made(p.tensors.size()), product(p.tensors.size()), other(p.tensors.size());
  for (Segment const& s : p.segments)
    for (Op const& op : s.ops) {
      bool const multiplies = op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm;
      if (s.kind == ActionKind::backward_input && op.layer >= 0)
        for (TensorRef const& ref : op.outputs)
          if (ref.valid()) made[p.storage_of(ref.id)] = true;
      if (s.kind == ActionKind::forward)
        for (TensorRef const& ref : op.outputs)
          if (ref.valid()) other[p.storage_of(ref.id)] = true;
      if (s.kind == ActionKind::backward_weight)
        for (TensorRef const& ref : op.inputs)
          if (ref.valid()) (multiplies ? product : other)[p.storage_of(ref.id)] = true;
    }
  for (Chunk const& chunk : p.chunks)
    for (TensorId const id : {chunk.input_gradient, chunk.output_gradient})
      if (id != no_tensor) other[p.storage_of(id)] = true;
  for (std::size_t id = 0; id < p.tensors.size(); ++id) {
    Tensor& t = p.tensors[id];
    if (t.role == TensorRole::temporary && made[id] && product[id] && !other[id] && t.dtype == p.precision)
      t.dtype = linear;
  }
}

}  // namespace

StepProgram with_stack(StepProgram program, SoftwareStack const& stack) {
  if (!stack.dp_overlap) defer_reductions(program);
  if (stack.gather_with_forward) gather_with_forward(program);
  Keeper keeper(program);
  if (stack.saved_score_bytes > 0)
    keeper.keep("scores", OpKind::attention_forward, OpKind::attention_backward, true,
                [&](Op const& op) { return stack.saved_score_bytes * scores_of(op); });
  if (stack.saved_mask_bytes > 0)
    keeper.keep("dropout_mask", OpKind::norm_forward, OpKind::norm_backward, true,
                [&](Op const& op) { return stack.saved_mask_bytes * elements_of(op); });
  if (stack.saved_mask_bytes > 0) keep_leaving_masks(program, stack.saved_mask_bytes);
  if (stack.recompute_keeps_output)
    keeper.keep("kept_output", OpKind::attention_forward, OpKind::attention_backward, false, [&](Op const& op) {
      return recomputed_output(program, op) * static_cast<double>(bytes_of(program.precision));
    });
  if (stack.merged_weights) merge_weights(program);
  if (stack.linear_precision == Dtype::fp8 && program.precision == Dtype::bf16)
    keep_casts(program, stack.linear_precision), keep_gradient_casts(program, stack.linear_precision);
  if (stack.activation_input_bytes > 0) narrow_activation_inputs(program, stack.activation_input_bytes);
  if (stack.moment_bytes < 4) narrow_moments(program, stack.moment_bytes);
  if (stack.logits_bytes > 0 || stack.loss_working_bytes > 0) add_loss_tensors(program, stack);
  return program;
}

FrameworkBytes framework_bytes(SoftwareStack const& stack, std::int64_t communicators, double activation_bytes) {
  constexpr double gb = 1e9;
  return {.context = stack.context_gb * gb,
          .workspace = stack.workspace_gb * gb,
          .communicators = stack.communicator_gb * gb * static_cast<double>(communicators),
          .fragmentation = stack.fragmentation * activation_bytes,
          .other = stack.reserved_gb * gb};
}

std::int64_t communicators_of(StepProgram const& p) {
  std::set<std::vector<std::int64_t>> used;  // groups of the same ranks share one
  for (Segment const& s : p.segments)
    for (Op const& op : s.ops)
      if (op.group.valid() && p.groups[op.group].members.size() > 1) used.insert(p.groups[op.group].members);
  return std::ssize(used) + (p.degree[Axis::pp] > 1 ? 1 : 0);
}

std::vector<LoweredStage> with_stack(std::vector<LoweredStage> stages, SoftwareStack const& stack) {
  bool const changes = !stack.dp_overlap || stack.gather_with_forward || stack.saved_score_bytes > 0 ||
                       stack.saved_mask_bytes > 0 || stack.recompute_keeps_output || stack.merged_weights ||
                       stack.linear_precision == Dtype::fp8 || stack.activation_input_bytes > 0 ||
                       stack.moment_bytes < 4 || stack.logits_bytes > 0 || stack.loss_working_bytes > 0;
  for (LoweredStage& stage : stages)
    if (changes) stage = with_stack(std::move(stage).take(), stack);
  return stages;
}

}  // namespace shardbench
