#include "harness/program/passes/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include "harness/config/stage_layout.hpp"
#include "harness/program/graph/context_blocks.hpp"
#include "harness/program/graph/routing_load.hpp"
#include "harness/program/models/model_graph.hpp"
#include "harness/program/passes/buckets.hpp"
#include "harness/program/passes/gradient_norm.hpp"
#include "harness/program/passes/inference.hpp"
#include "harness/program/passes/narrow_gradients.hpp"
#include "harness/program/passes/recompute.hpp"
#include "harness/program/passes/shard_actions.hpp"
#include "harness/schedule/actions.hpp"
#include "harness/schedule/stage_order.hpp"
#include "harness/sharding/device_mesh.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Private channels go with blocks of two branches that each end in one row-parallel product.
void refuse_private_channels(Experiment const& e) {
  ModelConfig const& m = e.model;
  char const* const part = e.phase != PhaseKind::train           ? "a KV cache"
                           : e.cut.tp_overlap != TpOverlap::none ? "chunked tp-overlap"
                           : m.moe                               ? "experts"
                           : m.parallel_block                    ? "parallel blocks"
                           : m.post_norms                        ? "norms behind the branches"
                           : m.mla                               ? "latent attention"
                           : m.vision                            ? "images"
                           : e.mtp > 0                           ? "multi-token prediction"
                                                                 : nullptr;
  if (part)
    throw IllegalConfig(
        fmt::format("tp-sync-fraction: {} has no lowering with {} (allowed: 1)", e.cut.tp_sync_fraction, part));
}

void refuse_what_has_no_lowering(Experiment const& e) {
  Cut const& c = e.cut;
  std::string const part = unsupported_part(e.model, e.scope == Scope::model);
  if (!part.empty())
    throw IllegalConfig(
        fmt::format("model {}: {} cannot be lowered yet (describe counts its parameters)", e.model.name, part));
  if (e.phase != PhaseKind::train && e.scope != Scope::model)
    throw IllegalConfig(
        fmt::format("scope: {} has no lowering for {} (allowed: model)", to_string(e.scope), to_string(e.phase)));
  if (c.tp_overlap != TpOverlap::none && e.phase != PhaseKind::train)
    throw IllegalConfig(fmt::format("tp-overlap: {} has no lowering for {} (allowed: none)", to_string(c.tp_overlap),
                                    to_string(e.phase)));
  if (c.tp > 1 && is_private(strategy_of(e).block)) refuse_private_channels(e);
  if (e.precision != Dtype::f32 && e.precision != Dtype::bf16)
    throw IllegalConfig(fmt::format("precision: {} has no lowering yet (allowed: fp32, bf16)", to_string(e.precision)));
  if (e.gradient_dtype != Dtype::f32 && e.gradient_dtype != e.precision)
    throw IllegalConfig(fmt::format("gradient-dtype: {} with precision {} (allowed: fp32, or the same as precision)",
                                    to_string(e.gradient_dtype), to_string(e.precision)));
  // A shard set of the experts spans as many ranks as one of the dense part, all of their cuts included.
  if (std::int64_t const ranks = c.shard_ranks * c.cp * c.tp; e.model.moe && ranks % (c.etp * c.ep) != 0)
    throw IllegalConfig(
        fmt::format("shard-ranks: {} * cp {} * tp {} = {} ranks hold no whole set of experts (allowed: multiples of "
                    "etp*ep = {})",
                    c.shard_ranks, c.cp, c.tp, ranks, c.etp * c.ep));
  if (e.model.vision && c.cp > 1 && e.scope == Scope::model)
    throw IllegalConfig(fmt::format("cp: {} with an image has no lowering (allowed: 1, or scope layer)", c.cp));
}

/// Builds one rank's program step by step.
class Lowering {
 public:
  Lowering(Experiment const& e, PipelineSchedule const& schedule, std::int64_t rank)
      : e_(e), schedule_(schedule), mesh_({{"tp", e.cut.tp}, {"cp", e.cut.cp}, {"dp", e.cut.dp}, {"pp", e.cut.pp}}) {
    place(rank);
    strategy_ = strategy_of(e);
    p_.groups = communication_groups(e, rank);
    tape_.emplace(p_, strategy_, e_);
  }

  StepProgram lower() {
    p_.schedule = {schedule_.kind, schedule_.stages, schedule_.chunks, schedule_.microbatches, {}};
    tape_->begin_chunk(all_chunks);
    add_inputs();
    make_chunks();
    for (std::size_t c = 0; c < p_.chunks.size(); ++c) build_chunk_segments(static_cast<std::int32_t>(c));
    if (p_.inference.on) {
      order_inference(*tape_, mine());
      return std::move(p_);
    }
    add_optimizer();
    make_actions();
    return std::move(p_);
  }

 private:
  bool fully_sharded() const { return weights_are_sharded(e_); }
  std::vector<Action> const& mine() const { return schedule_.order[p_.stage]; }

  void place(std::int64_t rank) {
    Cut const& c = e_.cut;
    p_.rank = rank;
    auto const at = mesh_.coordinate_of(rank);
    p_.stage = at[3];
    p_.degree = {{c.tp, c.cp, c.dp, c.pp, c.ep}};
    p_.coordinate = {{at[0], at[1], at[2], at[3], (rank % (c.tp * c.cp * c.dp)) / c.etp % c.ep}};
    p_.etp = c.etp;
    p_.etp_coordinate = rank % c.etp;
    p_.seq = e_.seq;
    p_.inference.on = e_.phase != PhaseKind::train;
    if (e_.phase == PhaseKind::decode) p_.seq = 1, p_.inference.context = e_.context;
    p_.local_seq = p_.seq / c.cp;
    p_.sequence = context_pieces(context_layout(e_.model, c.cp_method), p_.seq, c.cp, at[1]);
    p_.micro_batch = e_.micro_batch;
    p_.microbatches = e_.microbatches();
    p_.global_batch = e_.global_batch;
    p_.first_sample = at[2] * (e_.global_batch / c.dp);
    p_.precision = e_.precision;
    p_.vocab = e_.model.outputs();
    // A tower's features are no vocabulary: nothing is cut, nothing padded.
    p_.padded_vocab =
        e_.model.has_classifier() ? padded_vocab(p_.vocab, c.tp * c.streams, e_.vocab_divisible_by) : p_.vocab;
  }

  TensorId buffer(std::string const& name, Dtype dtype, std::int64_t rows, std::int64_t cols, bool per_microbatch) {
    TensorId const id = tape_->new_tensor(name, TensorRole::buffer, dtype, rows, cols);
    p_.tensors[id].per_microbatch = per_microbatch;
    return id;
  }

  void add_inputs() {
    std::int64_t const tokens = p_.local_seq * p_.micro_batch;
    p_.inputs.positions = buffer("positions", Dtype::i32, p_.local_seq, 1, false);
    if (e_.model.moe && e_.routing == RoutingKind::prescribed) {
      RoutingLoad const load = routing_load(*e_.model.moe, e_.router_skew);
      p_.inputs.numbers = {buffer("token_numbers", Dtype::i32, tokens, 1, true), load.period, load.stride};
    }
    if (e_.scope == Scope::layer || e_.model.yolo) return;
    if (!e_.model.vision) p_.inputs.ids = buffer("ids", Dtype::i32, tokens, 1, true);
    p_.inputs.token_positions = buffer("token_positions", Dtype::i32, tokens, 1, false);
    if (p_.inference.on) {
      // A rank that has both ends feeds what it chose back as the next token.
      bool const whole = e_.phase == PhaseKind::decode && e_.cut.pp == 1;
      p_.inference.next_ids = whole ? p_.inputs.ids : buffer("next_ids", Dtype::i32, e_.micro_batch, 1, true);
      return;
    }
    for (std::int64_t k = 0; k < e_.mtp; ++k)
      p_.inputs.future_tokens.push_back(buffer(fmt::format("tokens_ahead.{}", k + 2), Dtype::i32, tokens, 1, true));
    p_.inputs.targets = buffer("targets", Dtype::i32, e_.model.vision ? p_.micro_batch : tokens, 1, true);
    p_.loss = buffer("loss", Dtype::f32, 1, 1, false);
  }

  std::vector<Chunk> units_of(ChunkPlace place, std::vector<std::int64_t> const& layers) const {
    std::int32_t const piece = p_.schedule.piece_of(place);
    Chunk const whole{.piece = piece,
                      .pipeline_chunk = place.chunk,
                      .first_layer = std::accumulate(layers.begin(), layers.begin() + piece, std::int64_t{0}),
                      .layers = layers[piece],
                      .has_embedding = piece == 0,
                      .has_head = piece + 1 == p_.schedule.pieces()};
    if (!fully_sharded()) return {whole};
    // ZeRO-3 gathers and frees a block at a time: each block is a chunk, embedding and head are chunks of their own.
    std::vector<Chunk> units;
    bool const outer = e_.scope == Scope::model;
    if (whole.layers == 0 && !(outer && (whole.has_embedding || whole.has_head))) return {whole};
    auto const unit = [&](std::int64_t first_layer, std::int64_t count) -> Chunk& {
      units.push_back({.piece = piece,
                       .pipeline_chunk = place.chunk,
                       .first_layer = first_layer,
                       .layers = count,
                       .layers_before = first_layer - whole.first_layer});
      return units.back();
    };
    if (outer && whole.has_embedding) unit(whole.first_layer, 0).has_embedding = true;
    for (std::int64_t l = 0; l < whole.layers; ++l) unit(whole.first_layer + l, 1);
    if (outer && whole.has_head) unit(whole.first_layer + whole.layers, 0).has_head = true;
    return units;
  }

  void make_chunks() {
    // One stage has no pipeline, whatever its schedule.
    auto const layers = p_.schedule.pieces() == 1 ? std::vector{e_.model.layers} : piece_layers(e_);
    VALIDATE(std::ssize(layers) == p_.schedule.pieces(), "a layout and a schedule differ in their pieces");
    auto const stage = static_cast<std::int32_t>(p_.stage);
    for (std::int32_t c = 0; c < p_.schedule.chunks; ++c) {
      auto const units = units_of({stage, c}, layers);
      first_unit_.push_back(static_cast<std::int32_t>(p_.chunks.size()));
      p_.chunks.insert(p_.chunks.end(), units.begin(), units.end());
    }
    first_unit_.push_back(static_cast<std::int32_t>(p_.chunks.size()));
    add_borders();
  }

  /// Boundary tensors exist before the chunks that meet there: two chunks of one rank share them, so nothing is copied.
  void add_borders() {
    if (e_.model.yolo) return;  // one chunk, which takes images and ends in gradients of its own
    std::int64_t rows = p_.local_seq * p_.micro_batch;
    if (is_shard(tape_->block_layout()[Axis::tp], sequence_dim)) {
      if (rows % e_.cut.tp != 0)
        throw IllegalConfig(fmt::format("sequence-parallel: seq {} does not divide by tp={}", e_.seq, e_.cut.tp));
      rows /= e_.cut.tp;
    }
    auto const border = [&](std::int32_t chunk, char const* what, bool given) {
      TensorId const id =
          tape_->new_tensor(fmt::format("chunk{}.{}", chunk, what), given ? TensorRole::buffer : TensorRole::activation,
                            p_.precision, rows, e_.model.hidden);
      p_.tensors[id].placement = tape_->block_layout();
      p_.tensors[id].per_microbatch = given;
      return id;
    };
    bool const blocks_only = e_.scope == Scope::layer;
    auto const stage = static_cast<std::int32_t>(p_.stage);
    for (std::int32_t c = 0; c < p_.schedule.chunks; ++c) {
      bool const first = !p_.schedule.previous({stage, c}), last = !p_.schedule.next({stage, c});
      for (std::int32_t u = first_unit_[c]; u < first_unit_[c + 1]; ++u) {
        Chunk& chunk = p_.chunks[u];
        bool const opens = first && u == first_unit_[c], closes = last && u + 1 == first_unit_[c + 1];
        if (!opens || blocks_only)
          chunk.input = border(u, "input", opens), chunk.input_gradient = border(u, "input_gradient", false);
        if (!closes || blocks_only)
          chunk.output = border(u, "output", false), chunk.output_gradient = border(u, "output_gradient", closes);
      }
    }
    join_local_borders();
  }

  void join_local_borders() {
    auto const stage = static_cast<std::int32_t>(p_.stage);
    auto const join = [&](std::int32_t from, std::int32_t to) {
      p_.chunks[to].input = p_.chunks[from].output;
      p_.chunks[to].input_gradient = p_.chunks[from].output_gradient;
    };
    for (std::int32_t c = 0; c < p_.schedule.chunks; ++c) {
      auto const begin = first_unit_[c], end = first_unit_[c + 1];
      for (std::int32_t u = begin + 1; u < end; ++u) join(u - 1, u);
      auto const next = p_.schedule.next({stage, c});
      if (next && next->stage == stage) join(end - 1, first_unit_[next->chunk]);
    }
  }

  /// What only weight gradients read is communicated with them: nothing of the input part would wait for it.
  void defer_unread_communication(std::vector<Op>& backward) const {
    for (auto i = backward.size(); i-- > 0;) {
      Op& op = backward[i];
      if (!is_communication(op.kind) || op.part != BackwardPart::input) continue;
      bool const waited = std::ranges::any_of(std::span(backward).subspan(i + 1), [&](Op const& later) {
        return later.part == BackwardPart::input && p_.waits_for(later, op);
      });
      if (!waited) op.part = BackwardPart::weight;
    }
  }

  void build_chunk_segments(std::int32_t index) {
    tape_->begin_chunk(index);
    ParameterId const first_parameter(p_.parameters.size());
    build_chunk(*tape_);
    if (p_.inference.on) {
      add_weight_bucket(*tape_, index, first_parameter);
      p_.segments.push_back({ActionKind::forward, index, tape_->take_forward()});
      return;
    }
    tape_->derive_backward();
    auto forward = tape_->take_forward(), backward = tape_->take_backward();
    narrow_gradients(*tape_, backward);
    add_recompute(p_, e_.cut, p_.chunks[index], forward, backward, schedule_.splits_backward());
    TensorId const output = p_.chunks[index].output;
    if (p_.schedule.sends_ahead() && output != no_tensor) backward.front().after.push_back({output});
    add_buckets(*tape_, index, first_parameter, schedule_.splits_backward(), backward);
    p_.segments.push_back({ActionKind::forward, index, std::move(forward)});
    if (schedule_.splits_backward()) {
      defer_unread_communication(backward);
      Segment input{ActionKind::backward_input, index, {}}, weight{ActionKind::backward_weight, index, {}};
      for (Op const& op : backward) (op.part == BackwardPart::input ? input : weight).ops.push_back(op);
      p_.segments.push_back(std::move(input));
      p_.segments.push_back(std::move(weight));
    }
    p_.segments.push_back({ActionKind::backward, index, std::move(backward)});
    if (fully_sharded()) add_shard_segments(*tape_, index);
  }

  void add_optimizer() {
    tape_->begin_chunk(all_chunks);
    add_copy_reductions(*tape_);
    std::vector<Op> ops = clip_ops(*tape_);
    std::ranges::move(optimizer_ops(*tape_), std::back_inserter(ops));
    p_.segments.push_back({ActionKind::optimizer, 0, std::move(ops)});
  }

  /// Adds a pipeline action as those of the chunk's units, with gathers and frees around them where weights are
  /// sharded.
  void expand(Action const& action, std::vector<Action>& out) const {
    std::int32_t const begin = first_unit_[action.chunk], end = first_unit_[action.chunk + 1];
    bool const message = is_transfer(action);
    if (message || !fully_sharded()) {
      // Activations enter the first unit and leave the last, gradients the other way.
      bool const last = message && (action.kind == ActionKind::send) == (action.boundary == Boundary::activation);
      Action a = action;
      a.chunk = last ? end - 1 : begin;
      if (action.kind == ActionKind::pair) a.pair_chunk = first_unit_[action.pair_chunk];
      out.push_back(a);
      return;
    }
    gather_and_free(action, begin, end, out);
  }

  void make_actions() {
    for (Action const& action : fully_sharded() ? without_pairs(mine()) : mine()) expand(action, p_.actions);
    keep_whole(p_.actions, e_.cut.zero_keep);
    std::vector<bool> adds(p_.chunks.size());
    for (std::size_t c = 0; c < adds.size(); ++c)
      adds[c] = p_.segment_of(ActionKind::add, static_cast<std::int32_t>(c)) != nullptr;
    reduce_beside_next_pass(p_.actions, adds, !fully_sharded());
    if (p_.segment_of(ActionKind::reduce, all_chunks))
      p_.actions.push_back({.kind = ActionKind::reduce, .chunk = all_chunks});
    p_.actions.push_back({.kind = ActionKind::optimizer});
  }

  Experiment const& e_;
  PipelineSchedule const& schedule_;
  DeviceMesh mesh_;
  StepProgram p_;
  Strategy strategy_;
  std::optional<Tape> tape_;
  std::vector<std::int32_t> first_unit_;  ///< [pipeline chunk] first of its units in p_.chunks
};

PipelineSchedule stage_orders(Experiment const& e) {
  return ordered_stages(e.cut.schedule, e.cut.pp, e.cut.vpp, e.microbatches(), e.phase == PhaseKind::train);
}

}  // namespace

StepProgram lower(Experiment const& experiment, std::int64_t rank) {
  ++programs_lowered;
  refuse_what_has_no_lowering(experiment);
  return Lowering(experiment, stage_orders(experiment), rank).lower();
}

std::vector<StepProgram> lower_stages(Experiment const& experiment) {
  refuse_what_has_no_lowering(experiment);
  PipelineSchedule const schedule = stage_orders(experiment);
  std::vector<StepProgram> programs;
  for (std::int64_t const rank : representative_ranks(experiment)) {
    ++programs_lowered;
    programs.push_back(Lowering(experiment, schedule, rank).lower());
  }
  return programs;
}

bool is_unsharded(Experiment const& e) { return e.cut == Cut{} && e.strategy.empty(); }

Experiment unsharded(Experiment const& e) {
  Experiment whole = e;
  whole.cut = Cut{};
  whole.strategy.clear();
  whole.pipeline_layout.clear();
  Strategy const strategy = strategy_of(e);
  if (e.cut.tp > 1 && is_private(strategy.block)) {
    // Each rank has a residual stream of its own, and so has its reference.
    whole.cut.streams = e.cut.tp;
    whole.cut.tp_sync_fraction = e.cut.tp_sync_fraction;
    whole.strategy = e.strategy;
  }
  whole.ranks = 1;
  whole.check = false;
  return whole;
}

}  // namespace shardbench
