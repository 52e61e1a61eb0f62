#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "harness/schedule/schedule.hpp"
#include "harness/sharding/groups.hpp"
#include "harness/sharding/strategy.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/conv/conv.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/index.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/router/router.hpp"

namespace shardbench {

struct Tensor;
struct Parameter;
struct Bucket;
struct OpLabel;
using TensorId = Id<Tensor>;
using ParameterId = Id<Parameter>;
using BucketId = Id<Bucket>;
using LabelId = Id<OpLabel>;
inline constexpr TensorId no_tensor;

/// What a tensor is for, and so how long it lives: roles up to `buffer` last for the whole run.
enum class TensorRole : std::uint8_t { parameter, gradient, optimizer, buffer, kv_cache, activation, temporary, size_ };
std::string_view to_string(TensorRole role);

/// One tensor of one rank. Shapes are [rows, cols]; rows of activations are (sequence, batch), sequence outermost.
struct Tensor {
  std::string name;
  TensorRole role = TensorRole::temporary;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0, cols = 0;  ///< local; a bound where rows are routed
  double expected_rows = 0;         ///< what counts use: `rows`, or the mean load where rows are routed
  std::int64_t global_rows = 0, global_cols = 0;
  EnumArray<Axis, Placement> placement{};
  std::int32_t chunk = -1;          ///< the chunk whose segments touch it, -1 for all
  TensorId storage = no_tensor;     ///< the tensor whose bytes it shares; itself when it owns them
  std::int64_t storage_offset = 0;  ///< elements into `storage`
  bool apart = false;           ///< a piece of `storage` whose uses are ordered on their own (see Tape::slice_apart)
  bool per_microbatch = false;  ///< buffers that hold a block for each microbatch of the step
  std::int64_t elements() const { return rows * cols; }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(bytes_of(dtype)); }
};

/// A tensor as an operand: from `offset` elements on, rows `stride` elements apart (0: its own cols).
struct TensorRef {
  TensorId id = no_tensor;
  std::int64_t offset = 0;
  std::int64_t stride = 0;
  bool valid() const { return id != no_tensor; }
};

enum class OpKind : std::uint8_t {
  gemm,
  grouped_gemm,
  attention_forward,
  attention_backward,
  attention_merge,
  norm_forward,
  norm_backward,
  rope,
  activation_forward,
  activation_backward,
  embedding_forward,
  embedding_backward,
  cross_entropy_max,
  cross_entropy_sum,
  cross_entropy_loss,
  cross_entropy_backward,
  add,
  column_sum,
  copy_block,
  scale,
  adamw,
  dropout,
  square_sum,
  clip_factor,
  im2col,
  col2im,
  depthwise_forward,
  depthwise_backward,
  batch_norm_forward,
  batch_norm_backward,
  max_pool_forward,
  max_pool_backward,
  upsample_forward,
  upsample_backward,
  pool_rows_forward,
  pool_rows_backward,
  router_forward,
  router_backward,
  permute,
  unpermute,
  combine_weights,
  expert_rows,
  source_rows,
  fetch_counts,
  join_keys,
  split_keys,
  cache_append,
  best_token,
  pick_token,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  send,
  receive,
  ring_shift,
  size_
};
inline constexpr std::size_t op_kind_count = static_cast<std::size_t>(OpKind::size_);
std::string_view to_string(OpKind kind);
bool is_communication(OpKind kind);

// Shapes, one struct a family. Sizes are local to the rank.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};
struct GroupedGemmShape {
  std::int64_t groups = 0, m = 0, n = 0, k = 0;
  bool transpose_b = false, weight_gradient = false;
  double expected_m = 0;
};
struct AttentionOpShape {
  std::int64_t seq_q = 0, seq_k = 0, batch = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0, window = 0;
  float scale = 1, softcap = 0;
  AttentionMask mask = AttentionMask::causal;
  double visible_pairs = 0;                                    ///< query-key pairs a head computes for one sample
  double full_pairs = 0;                                       ///< the pairs it stands for when masked ones count too
  std::int64_t q_offset = aligned_ends, statistic_stride = 0;  ///< as the kernels take them
  bool add_q = false, add_kv = false;                          ///< backward adds to its gradients
};
struct NormShape {
  NormKind kind = NormKind::layer_norm;
  std::int64_t rows = 0, cols = 0;
  float eps = 0, weight_offset = 0;
  bool residual = false;
  std::int64_t heads = 1;  ///< vectors of `cols` in a row, each normed by itself
};
struct RopeShape {
  std::int64_t seq = 0, batch = 0, heads = 0, head_dim = 0, rotary_dim = 0;
  RopeRule rule;
  bool inverse = false;
};
struct ActivationShape {
  ActivationKind kind = ActivationKind::gelu_tanh;
  bool gated = false;
  std::int64_t rows = 0, cols = 0;
};
struct EmbeddingShape {
  std::int64_t tokens = 0, rows = 0, cols = 0, first_row = 0;
  float scale = 1;
};
struct CrossEntropyOpShape {
  std::int64_t tokens = 0, columns = 0, first_column = 0, valid_vocab = 0;
  float scale = 1, softcap = 0;
};
struct BlockShape {
  std::int64_t rows = 0, cols = 0;
  float scale = 1;
};  ///< add, column_sum, copy_block, scale
struct AdamWShape {
  std::int64_t count = 0;
};
/// Rows are (sequence, batch); `copies` batch entries are one sample. `site` names the place in the model.
struct DropoutShape {
  std::int64_t rows = 0, cols = 0, batch = 1, copies = 1;
  float rate = 0;
  std::uint64_t site = 0;
};
struct ClipShape {
  float max_norm = 0;
};
struct BatchNormShape {
  std::int64_t rows = 0, cols = 0;
  float eps = 0;
};
struct UpsampleShape {
  std::int64_t height = 0, width = 0, batch = 0, channels = 0, factor = 2;
};
/// Rows [begin, end) of `seq` positions, summed and scaled.
struct PoolRowsShape {
  std::int64_t seq = 0, batch = 0, cols = 0, begin = 0, end = 0;
  float scale = 1;
};
struct RouterShape {
  RouterRule rule;
  std::int64_t tokens = 0;
  std::int32_t period = 1, rotation = 0;  ///< of a prescribed choice (PrescribedChoice)
};
/// expert_rows, source_rows and fetch_counts: rows of `experts` of each rank of `ranks`, as in kernels/permute.
struct RowsShape {
  std::int64_t tokens = 0, top_k = 1, experts = 0, ranks = 1, copies = 1;
  std::int64_t earlier = 0, capacity = 0;
};
/// permute, unpermute, combine_weights: tokens and their `slots` places among `sorted` rows; `routed`: those arrived.
struct PermuteShape {
  std::int64_t tokens = 0, slots = 1, copies = 1, cols = 0, sorted = 0;
  double expected_tokens = 0, expected_sorted = 0;
  bool routed = false;
};
/// Keys of latent attention: each head's is [rotary | plain], the rotary part shared.
struct LatentKeysShape {
  std::int64_t rows = 0, heads = 0, plain_dim = 0, rotary_dim = 0;
};
/// Greedy choice among the logits of a vocabulary shard, or among `parts` shards' choices.
struct GreedyShape {
  std::int64_t rows = 0, columns = 0, first_column = 0, parts = 1;
};
/// `count` is the payload in elements (whole buffer for all-reduce, gathered output, scattered input, sent message;
/// what a ring shift hands to the next rank of its group).
struct CollectiveShape {
  std::int64_t count = 0;
  Dtype dtype = Dtype::f32;
  PartialOp reduce = PartialOp::sum;
  double expected_count = 0;
  std::int64_t routed_cols = 0;  ///< all-to-all of routed rows: elements of a row; 0: equal blocks
  bool returning = false;        ///< routed rows go back to where they came from
  double busiest_count = 0;      ///< routed rows: elements that the busiest rank takes, which all wait for
};

using OpShape = std::variant<GemmShape, GroupedGemmShape, AttentionOpShape, NormShape, RopeShape, ActivationShape,
                             EmbeddingShape, CrossEntropyOpShape, BlockShape, AdamWShape, DropoutShape, ClipShape,
                             RouterShape, RowsShape, PermuteShape, LatentKeysShape, GreedyShape, CollectiveShape,
                             WindowShape, BatchNormShape, UpsampleShape, PoolRowsShape>;

/// Queues of a rank: compute, one per communicating axis, and eight for the pipeline (send or receive, activation or
/// gradient, direction 0 or 1), so that no transfer ever waits for one of another kind.
enum class StreamId : std::uint8_t { compute, tp, cp, dp, ep, pipeline, size_ = pipeline + 8 };
inline constexpr std::size_t stream_count = enum_count<StreamId>;

/// In which microbatches of its chunk an op runs.
enum class When : std::uint8_t { every, first, last };

enum class FlopClass : std::uint8_t { model, recompute };

/// Which part of a backward pass an op belongs to (zero-bubble schedules run the parts apart).
enum class BackwardPart : std::uint8_t { input, weight, size_ };

/// One operation of a segment.
struct Op {
  OpKind kind = OpKind::gemm;
  OpShape shape;
  std::vector<TensorRef> inputs, outputs;
  std::vector<TensorRef> after;  ///< not read, but what is still under way on them must be over first
  StreamId stream = StreamId::compute;
  When when = When::every;
  bool accumulate = false;          ///< adds to its (gradient) output, except in the chunk's first microbatch
  bool always_accumulate = false;   ///< adds in every microbatch
  GroupId group;                    ///< of communication
  std::int32_t peer = -1, tag = 0;  ///< send, receive: position in the group, and what kind of message
  FlopClass flop_class = FlopClass::model;
  BackwardPart part = BackwardPart::input;
  bool attention_core = false;  ///< what selective recomputation repeats
  std::int32_t layer = -1;      ///< model layer, -1 outside the blocks
  LabelId label = 0;
  /// Its extent is a value on the host: the rows of routing, which fetch_counts read from the op's last input. No CUDA
  /// graph.
  bool host_dependent = false;
};

/// Calls reads(operand) for what an op reads or must find done, and writes(operand) for what it writes.
template <class Reads, class Writes>
void each_operand(Op const& op, Reads&& reads, Writes&& writes) {
  for (auto const* refs : {&op.inputs, &op.after})
    for (TensorRef const& ref : *refs)
      if (ref.valid()) reads(ref);
  for (TensorRef const& ref : op.outputs)
    if (ref.valid()) writes(ref);
}

/// A line of the ops report: what the op is, without its layer.
struct OpLabel {
  std::string name;   ///< "attention.qkv"
  std::string phase;  ///< "forward", "backward", "recompute", "optimizer", "transfer"
  OpKind kind = OpKind::gemm;
  Axis axis = Axis::size_;  ///< the billed axis of communication
};

/// The part of a parameter along dim 0 that is cut on its own (q, k and v of a packed projection; one expert).
struct ParameterSection {
  std::string key;               ///< global name, e.g. "layers.3.attention.qkv.k": seeds the generator, joins the check
  std::int64_t rows = 0;         ///< local rows
  std::int64_t row_begin = 0;    ///< first global row
  std::int64_t global_rows = 0;  ///< unpadded
  std::int64_t tp_copies = 0;    ///< neighbouring ranks along tp that hold the same rows; 0: all of them
};

enum class InitKind : std::uint8_t { normal, ones, zeros };

/// A weight of this rank: [rows, cols] local, sections stacked along rows.
struct Parameter {
  std::string name;
  std::vector<ParameterSection> sections;
  std::int64_t rows = 0, cols = 0, col_begin = 0, global_cols = 0;
  InitKind init = InitKind::normal;
  float init_scale = 0.02f;
  TensorId weight = no_tensor, gradient = no_tensor;
  BucketId bucket;
  std::int32_t chunk = 0;
  bool expert = false;  ///< replicated over the expert data-parallel group, not over dp
  bool tied = false;    ///< the word embedding that the head shares; its copies' gradients are summed
  bool copy = false;    ///< another rank or chunk owns it (tied embedding, DualPipe's second copy): counted once
  std::int64_t elements() const { return rows * cols; }
};

/// Parameters of a chunk whose gradients are reduced and whose states are updated together, contiguous in memory.
struct Bucket {
  std::vector<ParameterId> parameters;
  std::vector<GroupId> reduce_groups;  ///< groups summed over, in order
  GroupId shard_group;                 ///< the one of them that shards are spread over; later ones sum shards
  TensorId weights = no_tensor, gradients = no_tensor, master = no_tensor, exp_avg = no_tensor, exp_avg_sq = no_tensor;
  TensorId weight_shard = no_tensor;                         ///< ZeRO-3 only
  TensorId gradient_shard = no_tensor, reduced = no_tensor;  ///< where whole gradients do not outlive a microbatch
  std::int64_t elements = 0;                                 ///< padded to whole shards
  std::int64_t shard_begin = 0, shard_elements = 0;          ///< what this rank's optimizer owns
  std::int32_t chunk = 0;
};

/// Chunk of a segment that belongs to none.
inline constexpr std::int32_t all_chunks = -1;

/// Ops in issue order, replayed for each microbatch.
struct Segment {
  ActionKind kind = ActionKind::forward;
  std::int32_t chunk = 0;
  std::vector<Op> ops;
};

/// A piece of the model on this rank and the tensors at its borders.
struct Chunk {
  std::int32_t piece = 0;
  std::int32_t pipeline_chunk = 0;  ///< chunk of the schedule that it is (a unit of)
  std::int64_t first_layer = 0, layers = 0;
  bool has_embedding = false, has_head = false;
  TensorId input = no_tensor, output = no_tensor, input_gradient = no_tensor, output_gradient = no_tensor;
};

/// A buffer whose contents never change: these integers, or scale * normal numbers by the generator's key.
struct Constant {
  TensorId tensor = no_tensor;
  std::vector<std::int32_t> integers{};
  std::string key{};
  float scale = 0;
};

/// A buffer filled from the generator by global sample: inputs such as images, and gradients that come from outside.
/// Rows are (position, sample), every rank holds all positions of its samples.
struct DrawnBuffer {
  TensorId id = no_tensor;
  std::string key;  ///< seeds the generator
  float scale = 1;  ///< deviation
};

/// A number for each token and microbatch, where experts are prescribed: number * stride % period, tokens of all
/// samples numbered through.
struct TokenNumbers {
  TensorId tensor;
  std::int64_t period = 1, stride = 1;
  /// What stands in the tensor for the token of that number.
  std::int32_t value_of(std::int64_t number) const {
    return static_cast<std::int32_t>(number % period * stride % period);
  }
};

/// What a step is given: buffers that hold their contents before it starts.
struct StepInputs {
  TensorId ids, targets;                ///< tokens and what is to be foretold of them, or an image's class
  TensorId positions, token_positions;  ///< of this rank's rows of a sequence, and of each of its tokens
  std::vector<TensorId> future_tokens;  ///< [k]: of each token, the one k + 2 behind it (multi-token prediction)
  TokenNumbers numbers;
  std::vector<DrawnBuffer> drawn;
  std::vector<Constant> constants;
};

/// A step of prefill or decode: forward only, with a KV cache.
struct InferencePart {
  bool on = false;
  std::int64_t context = 0;      ///< tokens that the cache holds before the step, at most
  TensorId logits, next_ids;     ///< of the last position: [micro_batch, columns] and [micro_batch]
  std::int64_t first_logit = 0;  ///< global column of this rank's first
};

/// Where gradients are clipped by their norm: the sum of their squares, and the factor that the optimizer applies.
struct ClipPart {
  TensorId squares, factor;
};

/// What one rank does in one step. Pure data: counted, simulated and executed from here.
struct StepProgram {
  std::int64_t rank = 0, stage = 0;
  EnumArray<Axis, std::int64_t> coordinate{}, degree{};
  IdVector<Tensor> tensors;
  IdVector<Parameter> parameters;
  IdVector<Bucket> buckets;
  GroupTable groups;
  IdVector<OpLabel> labels;
  std::vector<Chunk> chunks;
  std::vector<Segment> segments;
  std::vector<Action> actions;  ///< this stage's order, transfers, reductions and the optimizer included
  PipelineSchedule schedule;    ///< its kind and sizes; the order of this stage is `actions`
  StepInputs inputs;
  InferencePart inference;
  ClipPart clip;
  TensorId loss;
  std::int64_t seq = 0, local_seq = 0, micro_batch = 0, microbatches = 0, global_batch = 0, padded_vocab = 0, vocab = 0;
  std::int64_t etp = 1, etp_coordinate = 0;  ///< the cut of each expert; `ep` and it vary within the group "ep"
  std::int64_t first_sample = 0;             ///< global index of this rank's first sample
  std::vector<DimRange> sequence;            ///< global positions of this rank's rows, in their order
  Dtype precision = Dtype::f32;

  /// Direction of the pipeline that a chunk's transfers take, where its schedule has two.
  std::int32_t direction_of(std::int32_t chunk) const {
    return schedule.has_two_directions() ? chunks[chunk].pipeline_chunk : 0;
  }
  /// The segment that an action replays; nullptr for transfers.
  Segment const* segment_of(ActionKind kind, std::int32_t chunk) const;
  /// The root of a tensor's storage.
  TensorId storage_of(TensorId id) const { return tensors[id].storage == no_tensor ? id : tensors[id].storage; }
  /// Whether `later` touches what `op` writes, so that it comes after it on whatever stream.
  bool waits_for(Op const& later, Op const& op) const;
};

}  // namespace shardbench
