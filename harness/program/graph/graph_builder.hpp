#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/config/yolo.hpp"
#include "harness/program/analysis/replay.hpp"
#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/loss_term.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// Dims of an activation, for Shard: [sequence, batch, feature]. Rows of its tensor are (sequence, batch).
/// `inner_feature_dim` are the features that remain of a cut of them by an outer axis: what Ulysses cuts inside tp's
/// part.
inline constexpr int sequence_dim = 0, batch_dim = 1, feature_dim = 2, inner_feature_dim = 3;

using Layout = EnumArray<Axis, Placement>;

/// A value of the forward graph (an index into the builder).
struct Value {
  std::int32_t index = -1;
  bool valid() const { return index >= 0; }
};

/// One independently cut part of a weight's rows: `rows` outputs in `units` equal blocks that stay whole (heads).
struct SectionSpec {
  std::string suffix;
  std::int64_t rows = 0;         ///< global, unpadded
  std::int64_t padded_rows = 0;  ///< what is cut; equals rows unless the vocabulary is padded
  std::int64_t units = 0;        ///< 0: every row is a unit
  bool replicable = false;       ///< may be replicated when units < tp (KV heads)
};

/// A linear layer's weight [sum of section rows, inputs].
struct LinearSpec {
  std::string name;  ///< "attention.qkv"; the global name has the layer before it
  std::string role;  ///< row of the strategy table
  std::vector<SectionSpec> sections;
  std::int64_t inputs = 0;
  bool bias = false;
  std::int32_t shared_weight = -1;  ///< index of an existing parameter (tied head)
  bool input_gradient = true;       ///< false where the inputs are data
  std::string weight_name{};        ///< of a weight with another name (a tied head's); empty: `name`
};

/// Where queries, keys and values lie (or their gradients), each with its row stride.
struct AttentionParts {
  TensorRef q, k, v;
};

/// A norm of vectors that lie side by side in rows (heads, or the first columns of a latent), for its backward pass.
struct VectorNorm {
  std::string name;
  std::int32_t weight = -1;
  NormShape shape;
  TensorRef x{}, mean{}, rstd{};
  Layout layout{};  ///< of the vectors: who has which
};

/// Builds the forward ops of a chunk on a tape and derives its backward ops, collectives included: each operation says
/// where its operands must lie, `redistribute` makes it so, and each redistribution has the dual one as its backward.
class GraphBuilder {
 public:
  GraphBuilder(StepProgram& program, Strategy const& strategy, Experiment const& experiment,
               std::map<std::string, std::int32_t> groups);

  /// Starts the segments of a chunk; `rows` is sequence (full, before any cut by tp) times micro-batch.
  void begin_chunk(std::int32_t chunk);
  void set_layer(std::int64_t layer);
  /// Name of a parameter in the current layer ("layers.3.mlp.up").
  std::string qualified(std::string const& name) const;

  /// The chunk's input: received, or given as a buffer when it is the first of a block-only program.
  Value chunk_input();
  /// Makes `x` the chunk's output in the block layout and names its gradient as the start of the backward pass.
  void chunk_output(Value x);

  /// Of a table that this chunk has already, or of its own (a copy off the chunk that begins with it).
  Value embedding(std::string const& name, std::string const& role, std::int64_t rows, std::int64_t padded_rows,
                  TensorId ids);
  /// Adds rows of a table chosen by position to x (learned positions).
  Value add_positions(Value x, std::string const& name, std::int64_t rows);
  /// y = norm(x); with `pending` valid, sum = x + pending becomes the residual stream and y = norm(sum).
  Value norm(Value x, Value pending, std::string const& name, Value* sum);
  Value linear(Value x, LinearSpec const& spec);
  /// Self-attention over packed projections [q | k | v]; norms of the heads and rotary embedding first when the model
  /// has them.
  Value attention(Value qkv, std::int64_t layer);
  /// Latent attention over x (the normed stream): low-rank projections, keys and values of every head, attention.
  Value latent_attention(Value x, std::int64_t layer);
  Value activation(Value up, std::int64_t columns);
  Value add(Value a, Value b);
  /// To where blocks want it; whole on every rank where they keep private copies.
  Value redistribute_to_block(Value x, std::string const& name);
  /// The residual stream at the entry of the blocks: each rank (or stream) goes on with a copy of its own where they
  /// are private.
  Value enter(Value x);
  /// Whether a branch is added to the residual stream by `join` at once, and not by the next norm.
  bool joins_at_once() const { return experiment_.dropout > 0 || private_block(); }
  /// stream + dropout(branch + its bias), in one pass.
  Value join(Value stream, Value branch, std::string const& name);
  /// x itself where nothing is dropped.
  Value dropout(Value x, std::string const& name);
  /// Vocabulary-parallel cross-entropy into program.loss; `targets_of_sample`: the loss is their mean over the batch.
  void loss(Value logits, std::int64_t first_column, std::int64_t targets_of_sample, LossTerm const& term);

  // Images (builder_vision.cpp). Rows are (y, x, sample).
  /// The images of a microbatch, from the generator.
  Value image(std::int64_t height, std::int64_t width, std::int64_t channels);
  /// The images cut into squares: rows (patch, sample), columns (y, x, channel) of the patch. Images have no gradient.
  Value patches(Value image, std::int64_t image_size, std::int64_t patch_size, std::int64_t channels);
  /// x behind one more position, a learned row that all samples share.
  Value with_class_token(Value x, std::string const& name);
  /// [batch, cols]: the mean of the positions [begin, end) of x.
  Value pool_rows(Value x, std::int64_t begin, std::int64_t end, std::string const& name);

  /// The rows of the last position of each sample.
  Value last_position(Value x);
  /// Keeps the logits and writes the column of the largest to program.inference.next_ids.
  void greedy(Value logits, std::int64_t first_column);
  /// Sends the chosen token to the first stage, or receives it there.
  void hand_on_token(bool sends);

  /// x as experts take it: with one copy of the experts per tensor-parallel group, its ranks share the tokens.
  Value moe_input(Value x);
  /// Expert MLP over moe_input: router, permute, dispatch, experts, combine. In the layout of its input.
  Value moe(Value x);
  /// sigmoid(x w) * y for each token, y brought to x's layout; w is a parameter [1, hidden].
  Value gate(Value y, Value x, std::string const& name);

  // Convolutional networks (builder_conv.cpp): feature maps of `size` x `size` positions, rows (y, x, sample).
  /// The layer's convolution, batch norm and activation, as it has them. Channels of x and layer must agree.
  Value conv(Value x, ConvLayer const& layer, std::string const& label, bool input_gradient);
  Value max_pool(Value x, std::int64_t size, std::int64_t kernel, std::string const& label);
  Value upsample(Value x, std::int64_t size, std::int64_t factor, std::string const& label);
  /// Columns of all parts side by side.
  Value concat(std::vector<Value> const& parts, std::string const& label);
  /// The inverse: parts of the given widths. Every part must be used.
  std::vector<Value> split(Value x, std::vector<std::int64_t> const& widths, std::string const& label);
  /// Full attention over the positions of feature maps; `qk` holds queries, then keys.
  Value attend(Value qk, Value v, std::int64_t heads, std::string const& label);
  /// Ends the graph at x: its gradient comes from the generator, as large as a mean over outputs makes it.
  void draw_gradient(Value x, std::string const& name);

  /// Walks the tape backwards; afterwards backward ops are complete.
  void derive_backward();
  std::vector<Op> take_forward() { return std::move(forward_); }
  std::vector<Op> take_backward() { return std::move(backward_); }
  Layout const& block_layout() const { return block_; }
  /// A parameter of the chunk being built by its global name, or -1.
  std::int32_t parameter_index(std::string const& name) const;
  /// First global row that this rank holds of a weight cut by rows.
  std::int64_t first_row(LinearSpec const& spec) const;

  /// Emits ops outside any chunk (optimizer) with the same labels and streams.
  Op make_op(OpKind kind, OpShape shape, std::string const& name, std::vector<TensorRef> inputs,
             std::vector<TensorRef> outputs);
  Op make_collective(OpKind kind, std::int32_t group, std::int64_t count, Dtype dtype, std::string const& name,
                     TensorRef from, TensorRef to);
  /// A buffer for each microbatch that the generator fills by `key` with deviation `scale`.
  TensorId drawn_buffer(std::string const& name, std::string const& key, std::int64_t rows, std::int64_t cols,
                        float scale);
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  TensorId new_tensor(std::string const& name, TensorRole role, Dtype dtype, std::int64_t rows, std::int64_t cols);

 private:
  struct Gradient {
    TensorRef ref;
    Layout layout;
  };
  struct ValueState {
    std::string name;
    TensorRef ref;
    std::int64_t rows = 0, cols = 0;  ///< local
    std::int64_t global_cols = 0;
    Layout layout;
    std::int32_t layer = -1;  ///< of the op that made it
    std::optional<Gradient> gradient;
    Value gathered_from;          ///< the sequence-cut value this one was gathered from
    Value moved;                  ///< this value in the layout that was asked for last
    std::int32_t late_bias = -1;  ///< bias that `join` adds: private channels have it after the synchronisation
  };

  ValueState& state(Value v) { return values_[static_cast<std::size_t>(v.index)]; }
  Value new_value(std::string const& name, std::int64_t rows, std::int64_t cols, std::int64_t global_cols,
                  Layout const& layout);
  Value value_of(TensorRef ref, std::string const& name, std::int64_t rows, std::int64_t cols, std::int64_t global_cols,
                 Layout const& layout);
  Op& emit(Op op);
  std::int32_t label(std::string const& name, OpKind kind, Axis axis);
  std::int32_t group_id(std::string const& name) const;
  Value redistribute(Value x, Layout const& to, std::string const& name);  ///< x as `to` says
  /// x, summed over tp where it is a partial sum: what a non-linear operation needs.
  Value whole(Value x);
  Value all_rows(Value x), all_columns(Value x);  ///< and with all ranks' rows, or columns; the others may stay cut
  TensorRef move(TensorRef x, std::int64_t& rows, std::int64_t& cols, Layout from, Layout const& to,
                 std::string const& name);
  /// Rows of all ranks' zigzag pieces, from the sequence's order to the ranks' or back.
  TensorRef zigzag_rows(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t ranks, bool to_ranks,
                        std::string const& name);
  TensorRef move_step(TensorRef x, std::int64_t& rows, std::int64_t& cols, RedistributeStep const& step,
                      std::string const& name);
  TensorRef pack(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t from_stride, TensorRef to,
                 std::int64_t to_stride, std::string const& name, float scale = 1);
  TensorRef temporary(std::string const& name, std::int64_t rows, std::int64_t cols);
  bool private_block() const { return streams_ > 1 || is_private(block_[static_cast<std::size_t>(Axis::tp)]); }
  /// The part of a dropout op that does not depend on its operands.
  DropoutShape dropout_shape(std::string const& name, std::int64_t rows, std::int64_t cols) const;
  /// Places in the sequence of the rows of x.
  TensorRef positions_of(Value x);

  // Products and collectives cut in pieces (builder_overlap.cpp).
  /// y[rows, outputs] = x[rows, inputs] * W, W transposed in the forward pass.
  struct Product {
    std::string name;
    TensorId weight;
    TensorRef bias;
    std::int64_t outputs, inputs;
    bool forward;
  };
  bool gathers_rows(Value x, Placement const& placement) const;
  static bool joins_block(LinearSpec const& spec);
  std::vector<DimRange> token_pieces(std::int64_t rows) const;
  /// Rows of a tensor as an operand whose uses are ordered apart from the other pieces'; who uses the whole waits for
  /// all of them.
  TensorRef piece(TensorRef whole, DimRange rows);
  void product(Product const& p, TensorRef from, std::int64_t rows, TensorRef to);
  TensorRef product_then_reduce(Product const& p, TensorRef x, std::int64_t rows, bool scatter,
                                std::string const& name);
  TensorRef gather_then_product(Product const& p, TensorRef x, std::int64_t mine, TensorRef whole,
                                std::string const& name);
  Value overlapped_linear(Value x, LinearSpec const& spec, Placement const& placement, std::int32_t weight,
                          std::int32_t bias);
  void overlapped_backward(Value x, Value y, std::int32_t weight, std::int32_t bias, Placement const& placement,
                           LinearSpec const& spec);

  // Partially synchronised tensor parallelism (builder_streams.cpp): over ranks, and as streams of one rank.
  TensorRef sync_part(TensorRef x, std::int64_t rows, std::int64_t cols, std::int64_t synced, std::string const& name);
  Value expand_streams(Value x);
  Value sum_streams(Value x);
  Value own_blocks(Value x, std::string const& name);
  Value select_blocks(Value x, std::string const& name);
  Value sync_streams(Value x, std::string const& name);
  TensorRef sum_of_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name);
  TensorRef copy_to_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name);
  TensorRef keep_own_blocks(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name);
  TensorRef sync_over_streams(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name);

  void accumulate(Value v, TensorRef gradient, Layout const& layout);
  /// The gradient of v, whole and in the layout its value's dual wants; invalid when nothing depends on v.
  TensorRef take_gradient(Value v);
  void on_backward(std::function<void()> step);

  std::int32_t add_parameter(Parameter parameter);
  Parameter cut_weight(LinearSpec const& spec, Placement const& placement) const;
  std::int32_t add_vector(std::string const& name, std::vector<ParameterSection> sections, std::int64_t rows,
                          InitKind init);
  /// Marks an op as writer of a parameter's gradient: the first in a backward pass overwrites, later ones add.
  void writes_gradient(Op& op, std::int32_t parameter, Layout const& rows_layout);
  void reduce_replicated_sections(std::int32_t parameter, Placement const& placement, LinearSpec const& spec);
  /// Throws IllegalConfig where a weight is not cut as private activations need it.
  void check_private_cut(LinearSpec const& spec, Layout const& input) const;
  std::pair<std::int32_t, std::int32_t> linear_weights(LinearSpec const& spec, Placement const& placement);
  void weight_gradients(TensorRef dy, TensorRef saved, std::int64_t rows, Layout rows_layout, std::int32_t weight,
                        std::int32_t bias, Placement const& placement, LinearSpec const& spec);
  void linear_backward(Value x, Value y, std::int32_t weight, std::int32_t bias, Placement const& placement,
                       LinearSpec const& spec);
  AttentionOpShape attention_shape(std::int64_t layer) const;
  // The attention core (builder_context.cpp).
  /// What attention works on in this rank: rows of q, k and v (packed or not), the output and its log-sum-exp.
  struct AttentionData {
    AttentionOpShape shape;
    TensorRef q, k, v, out, lse;
  };
  /// Gradients that attention's backward writes.
  struct AttentionGradients {
    TensorRef dout, dq, dk, dv;
  };
  std::int64_t stride_of(TensorRef x) const;
  /// Columns as a value of their own, and its gradient back to where theirs belongs.
  Value slice(TensorRef x, std::int64_t rows, std::int64_t cols, Layout const& layout, std::string const& name);
  void unslice(Value x, TensorRef gradient, std::string const& name);
  Value attention_output(AttentionOpShape const& shape, std::int64_t rows, Layout const& layout);
  Value attend_here(AttentionData d, AttentionParts const& gradients, std::int64_t rows, Layout const& layout);
  Value attend_to_gathered_keys(AttentionData d, AttentionParts const& gradients, std::int64_t rows,
                                Layout const& layout);
  Value attend_with_some_heads(AttentionData const& local, AttentionParts const& gradients, std::int64_t rows,
                               Layout const& layout);
  TensorRef log_sum_exp(AttentionOpShape const& s);
  void whole_forward(AttentionData const& d);
  void whole_backward(AttentionData const& d, AttentionGradients const& g);
  AttentionOpShape block_shape(AttentionData const& d, ContextBlock const& block) const;
  TensorRef block_rows(TensorRef x, DimRange rows) const;
  void block_forward(AttentionData const& d, ContextBlock const& block, bool merges);
  void block_backward(AttentionData const& d, AttentionGradients const& g, ContextBlock const& block, bool add_q,
                      bool add_kv);
  std::vector<std::vector<ContextBlock>> ring_steps(AttentionOpShape const& s) const;
  TensorRef ring_shift(TensorRef x, std::int64_t rows, std::int64_t cols, std::string const& name);
  TensorRef joined_keys(AttentionData const& d);
  void ring_forward(AttentionData const& d);
  void ring_backward(AttentionData const& d, AttentionGradients const& g);
  std::vector<ContextBlock> gathered_pieces(AttentionOpShape const& s) const;
  void gathered_forward(AttentionData const& d);
  void gathered_backward(AttentionData const& d, AttentionGradients const& g);
  /// Sizes of one expert layer on this rank, in rows, and where its routing lies.
  struct MoeSizes {
    std::int64_t tokens = 0, slots = 0;  ///< rows of the input, and how many rows each of them sends
    std::int64_t sent = 0, bound = 0;    ///< rows that may leave, and that may arrive
    double expected_sent = 0, expected = 0, imbalance = 1;
    std::int64_t peers = 1, copies = 1, local_experts = 0, capacity = 0;
    RouterShape router;
    TensorRef weights, indices;  ///< [tokens, top_k] of the choice
    TensorRef rows, counts;      ///< places of the rows, and how many go to and come from each peer and expert
    TensorRef arrivals;          ///< places of the rows that arrived, where they must be sorted
  };
  struct ExpertWeights {
    std::int32_t up = -1, down = -1;
    std::int64_t up_width = 0, width = 0;  ///< this rank's cut
  };
  TensorRef temporary(std::string const& name, Dtype dtype, std::int64_t rows, std::int64_t cols);
  TensorRef routed_tensor(std::string const& name, std::int64_t bound, double expected, std::int64_t cols);
  TensorRef constant(std::string const& name, Dtype dtype, std::int64_t count, Constant contents);
  MoeSizes moe_sizes(std::int64_t tokens) const;
  RouterRule router_rule() const;
  void route(Value logits, MoeSizes& s);
  void place_rows(MoeSizes& s);
  Op capped_rows(MoeSizes const& s, RowsShape shape);
  ExpertWeights expert_weights();
  std::int32_t expert_weight(std::string const& name, std::vector<std::string> const& parts, std::int64_t rows,
                             std::int64_t cols);
  TensorRef exchange(TensorRef from, MoeSizes const& s, std::string const& name, bool to_experts);
  TensorRef to_experts(TensorRef sorted, MoeSizes const& s, std::string const& name);
  TensorRef from_experts(TensorRef grouped, MoeSizes const& s, std::string const& name);
  TensorRef expert_product(TensorRef rows_in, MoeSizes const& s, std::int32_t weight, std::int64_t n, std::int64_t k,
                           bool transpose, std::string const& name);
  void expert_weight_gradient(TensorRef dy, TensorRef x, MoeSizes const& s, std::int32_t weight, std::int64_t m,
                              std::int64_t n, std::string const& name);
  TensorRef move_rows(OpKind kind, TensorRef from, TensorRef weights, MoeSizes const& s, std::string const& name);
  TensorRef combine_gradient(TensorRef dy, TensorRef rows, MoeSizes const& s, TensorRef& dweights);
  void router_gradient(Value logits, MoeSizes const& s, TensorRef dweights);
  Value dense_conv(Value x, ConvLayer const& layer, std::string const& label, bool input_gradient);
  Value depthwise_conv(Value x, ConvLayer const& layer, std::string const& label);
  Value batch_norm(Value x, std::string const& name, std::string const& label);
  Value silu(Value x, std::string const& label);
  std::int32_t add_matrix(std::string const& name, std::int64_t rows, std::int64_t cols);
  TensorRef weight_ref(std::int32_t parameter) const;
  TensorRef gradient_ref(std::int32_t parameter) const;
  void rotate(TensorRef heads, std::int64_t stride, bool inverse);
  /// Norms `count` vectors of `cols` in each row by themselves, one weight [cols] for all; strides are the operands'.
  VectorNorm vector_norm(std::string const& name, std::int64_t rows, std::int64_t count, std::int64_t cols, TensorRef x,
                         TensorRef y, Layout layout);
  void vector_norm_backward(VectorNorm const& forward, TensorRef dy, TensorRef dx);
  /// Whether keys and values are kept for later steps.
  bool caches() const;
  /// The cache of the current layer: `width` elements a token.
  TensorRef kv_cache(std::int64_t width);
  /// Writes this step's rows to the cache, behind those of earlier steps.
  void append_to_cache(TensorRef from, std::int64_t from_stride, std::int64_t cols, TensorRef cache,
                       std::int64_t column);
  Value latent_rows(Value down);
  Value attend_latent(Value q, Value latent, std::int64_t layer);
  AttentionOpShape latent_shape(std::int64_t layer) const;
  /// Attention itself; its gradients go where `gradients` says, and are somebody else's to pass on.
  Value attend(AttentionOpShape const& shape, AttentionParts const& parts, AttentionParts const& gradients,
               std::int64_t rows, Layout const& layout);

  StepProgram& program_;
  Strategy const& strategy_;
  Experiment const& experiment_;
  ModelConfig const& model_;
  std::map<std::string, std::int32_t> groups_;
  Layout block_{};
  std::int64_t overlap_chunks_ = 1;  ///< above 1: tp products and collectives in pieces
  std::map<TensorId, std::vector<TensorRef>> pieces_;
  std::int64_t streams_ = 1;       ///< residual streams that lie side by side in a row
  std::deque<ValueState> values_;  ///< a deque: layouts are passed on by reference while values are added
  std::vector<std::pair<std::int32_t, std::function<void()>>> tape_;  ///< layer, step
  std::vector<Op> forward_, backward_;
  std::vector<Op>* out_ = nullptr;
  std::string phase_ = "forward";
  BackwardPart part_ = BackwardPart::input;
  FlopClass flop_class_ = FlopClass::model;
  bool core_ = false;  ///< ops made now belong to the attention core
  std::int32_t chunk_ = 0, layer_ = -1;
  std::vector<bool> gradient_written_;  ///< by parameter, in the chunk being built
  std::map<std::string, std::int32_t> parameter_by_name_;
  std::map<std::tuple<std::string, std::string, OpKind, Axis>, std::int32_t> label_ids_;

 public:
  /// [parameter][axis]: the gradient is a partial sum along the axis and must be reduced there.
  std::vector<EnumArray<Axis, bool>> gradient_partial;
};

}  // namespace shardbench
