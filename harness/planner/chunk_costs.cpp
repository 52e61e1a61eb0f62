#include "harness/planner/chunk_costs.hpp"

#include <algorithm>
#include <cmath>

#include "harness/config/stage_layout.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// Layers of each piece under the base's layout, or an even one.
std::vector<std::int64_t> layers_of_pieces(Experiment const& base, PipelineSchedule const& shape) {
  if (!base.pipeline_layout.empty()) return piece_layers(base);
  Candidate c;
  c.pp = shape.stages, c.schedule = shape.kind;
  c.vpp = rules_of(shape.kind).takes_vpp() ? shape.chunks : 1;
  return piece_layers(base.model, cut_of(base, c));
}

}  // namespace

std::vector<ModelPart> model_parts(Experiment const& base, PipelineSchedule const& shape) {
  ModelConfig const& model = base.model;
  std::vector<std::int64_t> const layers = layers_of_pieces(base, shape);
  std::vector<ModelPart> pieces;
  std::int64_t first = 0;
  for (std::int64_t const count : layers) {
    ModelPart& piece = pieces.emplace_back();
    piece.layers = layers_by_kind(model, first, count);
    piece.last_kind = piece.layers.size() > 1 && count > 0 && model.is_moe_layer(first + count - 1) ? 1 : 0;
    first += count;
  }
  VALIDATE(std::ssize(pieces) == shape.pieces(), "a layout and a schedule differ in their pieces");
  pieces.front().embedding = pieces.back().head = true;
  std::vector<ModelPart> parts;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage)
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) parts.push_back(pieces[shape.piece_of({stage, chunk})]);
  return parts;
}

PieceCost sum_of(LayerCosts const& layer, ModelPart const& part) {
  PieceCost sum;
  for (std::size_t kind = 0; kind < part.layers.size(); ++kind)
    sum.add(layer.kinds[kind], static_cast<double>(part.layers[kind]));
  if (part.embedding) sum.add(layer.outside.embedding, 1);
  if (part.head) sum.add(layer.outside.head, 1);
  return sum;
}

ChunkCosts::ChunkCosts(PlanRequest const& request, CostModel const& model, NetworkMemo& network, Candidate const& c,
                       LayerCosts const& layer)
    : base_(request.base),
      stack_(model.stack()),
      network_(network),
      cut_(c),
      layer_(layer),
      rules_(rules_of(c.schedule)),
      stage_ranks_(std::int64_t{c.tp} * c.cp * c.dp),
      copies_(std::int64_t{c.dp} * c.cp),
      expert_cut_(std::int64_t{c.ep} * c.etp),
      microbatches_(static_cast<double>(base_.global_batch / (std::int64_t{c.dp} * c.micro_batch))) {}

PieceCost ChunkCosts::of(ModelPart const& part) const {
  PieceCost sum = sum_of(layer_, part);
  // A tied head in another chunk than the embedding holds a copy of its table.
  if (part.head && base_.model.tied_embeddings && cut_.pp > 1) sum.parameters += layer_.outside.embedding.parameters;
  return sum;
}

double ChunkCosts::message_ms(std::int64_t from_stage, std::int64_t to_stage) const {
  return network_.message_ms(from_stage * stage_ranks_, to_stage * stage_ranks_, cut_.tp, layer_.message_bytes);
}

CollectiveChain ChunkCosts::over_copies(OpKind kind, PieceCost const& held, double bytes_each) const {
  CollectiveChain chain;
  auto const add = [&](double parameters, double buckets, std::int64_t stride, std::int64_t ranks) {
    if (ranks < 2 || parameters <= 0) return;
    double const parts = std::max(1.0, std::round(buckets));
    chain.ms += network_.collective_ms(kind, parameters * bytes_each, stride, ranks, parts);
    chain.parts += parts;
  };
  add(held.parameters, held.buckets, cut_.tp, copies_);
  // Experts are copied over fewer ranks, those of other experts between them.
  add(held.expert_parameters, held.expert_buckets, expert_cut_, copies_ * cut_.tp / expert_cut_);
  return chain;
}

CollectiveChain ChunkCosts::reductions(PieceCost const& held) const {
  return over_copies(cut_.zero_stage == 0 ? OpKind::all_reduce : OpKind::reduce_scatter, held,
                     sent_gradient_bytes(base_, stack_));
}

CollectiveChain ChunkCosts::gathers(PieceCost const& held) const {
  if (cut_.zero_stage == 0) return {};
  return over_copies(OpKind::all_gather, held, static_cast<double>(bytes_of(base_.precision)));
}

double ChunkCosts::copies_ms(std::int64_t stage, PieceCost const& held) const {
  if (cut_.pp == 1) return 0;
  bool const ends = stage == 0 || stage == cut_.pp - 1;
  double parameters = 0, parts = 1;
  if (rules_.mirrored())
    parameters = held.parameters + held.expert_parameters, parts = held.buckets + held.expert_buckets;
  else if (base_.model.tied_embeddings && ends && !rules_.two_directions())
    parameters = layer_.outside.embedding.parameters;
  if (parameters <= 0) return 0;
  std::int64_t const away = std::abs(rules_.mirror_of(stage, cut_.pp) - stage);  // a tied table: from end to end
  double const shards = cut_.zero_stage > 0 ? static_cast<double>(copies_) : 1;
  return network_.collective_ms(OpKind::all_reduce, parameters / shards * sent_gradient_bytes(base_, stack_),
                                away * stage_ranks_, 2, std::max(1.0, std::round(parts)));
}

double ChunkCosts::update_ms(PieceCost const& held) const {
  bool const cut = cut_.zero_stage > 0;
  double const shards = cut ? static_cast<double>(copies_) : 1;
  double const expert_shards = cut ? static_cast<double>(copies_) * cut_.tp / static_cast<double>(expert_cut_) : 1;
  return (held.parameters / shards + held.expert_parameters / expert_shards) *
         layer_.outside.optimizer_ms_per_parameter;
}

double ChunkCosts::state_bytes(PieceCost const& held) const {
  OutsideCosts const& each = layer_.outside;
  auto const bytes = [&](double parameters, double ranks) {
    return parameters * (each.parameter_bytes / (cut_.zero_stage >= 3 ? ranks : 1) +
                         each.gradient_bytes / (cut_.zero_stage >= 2 ? ranks : 1) +
                         each.optimizer_bytes / (cut_.zero_stage >= 1 ? ranks : 1));
  };
  auto const copies = static_cast<double>(copies_);
  return bytes(held.parameters, copies) +
         bytes(held.expert_parameters, copies * cut_.tp / static_cast<double>(expert_cut_));
}

bool ChunkCosts::gathers_first() const {
  return stack_.gather_with_forward && cut_.zero_stage > 0 && cut_.zero_stage < 3;
}

}  // namespace shardbench
