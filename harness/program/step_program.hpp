#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "harness/schedule/schedule.hpp"
#include "harness/sharding/groups.hpp"
#include "harness/sharding/strategy.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/index.hpp"
#include "kernels/operations.hpp"

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

#define SHARDBENCH_EACH_COMMUNICATION(X) \
  X(all_reduce)                          \
  X(reduce_scatter)                      \
  X(all_gather)                          \
  X(all_to_all)                          \
  X(send)                                \
  X(receive)                             \
  X(ring_shift)

/// What an op does: the operations of kernels/operations.hpp, then communication.
enum class OpKind : std::uint8_t {
#define SHARDBENCH_KIND(name, ...) name,
  SHARDBENCH_EACH_OPERATION(SHARDBENCH_KIND, SHARDBENCH_KIND) SHARDBENCH_EACH_COMMUNICATION(SHARDBENCH_KIND)
#undef SHARDBENCH_KIND
      size_
};
inline constexpr std::size_t op_kind_count = static_cast<std::size_t>(OpKind::size_);
std::string_view to_string(OpKind kind);
bool is_communication(OpKind kind);

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

/// The shape of each operation, or of communication. Sizes are local to the rank.
#define SHARDBENCH_SHAPE(name, Args) Args::Shape,
using OpShape = UniqueVariant<std::variant<GemmShape>,
                              SHARDBENCH_EACH_OPERATION(SHARDBENCH_SHAPE, SHARDBENCH_SHAPE) CollectiveShape>::type;
#undef SHARDBENCH_SHAPE

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
  std::int32_t stretch = -1;  ///< forward: of what backward repeats as one, before it is needed; -1: of nothing
  std::int32_t layer = -1;    ///< model layer, -1 outside the blocks
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
  std::int64_t layers_before = 0;  ///< of its pipeline chunk, in units before this one
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
  TensorId gradient_of{};  ///< the output that it is the gradient of, where it is one
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
