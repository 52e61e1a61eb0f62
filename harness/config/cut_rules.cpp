#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "harness/config/cut.hpp"
#include "harness/config/reasons.hpp"
#include "harness/config/stage_layout.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// A weight dim that tensor parallelism cuts.
struct CutDim {
  std::string_view name;
  std::int64_t size;
};

std::vector<CutDim> tp_dims(ModelConfig const& model) {
  std::vector<CutDim> dims{{"query heads", model.heads}};
  if (model.vision_heads > 0) dims.push_back({"vision heads", model.vision_heads});
  bool dense_mlp = !model.moe;
  for (std::int64_t layer = 0; !dense_mlp && layer < model.layers; ++layer) dense_mlp = !model.is_moe_layer(layer);
  if (dense_mlp) dims.push_back({"ffn", model.ffn_hidden});
  if (model.moe && model.moe->shared_ffn_hidden > 0)
    dims.push_back({"shared expert ffn", model.moe->shared_ffn_hidden});
  return dims;
}

/// Latent attention expands keys and values to every query head, so only plain attention has the kv rule.
bool kv_fits(ModelConfig const& model, std::int64_t tp) {
  return model.mla || model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
}

bool tp_fits(ModelConfig const& model, std::vector<CutDim> const& dims, std::int64_t tp) {
  return kv_fits(model, tp) && std::ranges::all_of(dims, [&](CutDim const& dim) { return dim.size % tp == 0; });
}

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t limit) {
  std::vector<std::int64_t> result;
  for (std::int64_t d = 1; d <= n && d <= limit; ++d)
    if (n % d == 0) result.push_back(d);
  return result;
}

void add_tp(ModelConfig const& model, std::int64_t tp, Reasons& reasons) {
  std::vector<CutDim> const dims = tp_dims(model);
  if (tp_fits(model, dims, tp)) return;
  Reasons broken;
  for (CutDim const& dim : dims)
    if (dim.size % tp != 0) add(broken, "does not divide {} {}", dim.size, dim.name);
  if (!kv_fits(model, tp)) add(broken, "and {} kv heads: neither divides the other", model.kv_heads);
  add(reasons, "tp: {} {}; legal for {}: {}", tp, fmt::join(broken, ", "), model.name,
      list_text(legal_tp(model, model.heads)));
}

void add_experts(ModelConfig const& model, Cut const& p, Reasons& reasons) {
  if (!model.moe) {
    if (p.ep > 1) add(reasons, "ep: {} given, {} has no experts; legal: 1", p.ep, model.name);
    if (p.etp > 1) add(reasons, "etp: {} given, {} has no experts; legal: 1", p.etp, model.name);
    return;
  }
  if (model.moe->experts % p.ep != 0)
    add(reasons, "ep: {} does not divide {} experts; legal: {}", p.ep, model.moe->experts,
        list_text(divisors(model.moe->experts, model.moe->experts)));
  if (model.moe->ffn_hidden % p.etp != 0)
    add(reasons, "etp: {} does not divide expert ffn {}; legal: {}", p.etp, model.moe->ffn_hidden,
        list_text(divisors(model.moe->ffn_hidden, 64)));
  std::int64_t const world = p.ranks(), group = p.etp * p.ep * p.pp;
  if (world % group == 0) return;
  std::vector<std::int64_t> legal;
  for (std::int64_t const ep : divisors(model.moe->experts, model.moe->experts))
    if (world % (p.etp * ep * p.pp) == 0) legal.push_back(ep);
  add(reasons, "ep: etp*ep*pp = {}*{}*{} = {} does not divide {} ranks; legal ep: {}", p.etp, p.ep, p.pp, group, world,
      legal.empty() ? "none (change etp or pp)" : list_text(legal));
}

/// Whether there are layers enough for the pieces; embedding and head count where the cut says so.
void add_pieces(ModelConfig const& model, Cut const& p, Reasons& reasons) {
  std::int64_t const ends = p.pp == 1 ? 0 : (p.embedding_slot ? 1 : 0) + (p.head_slot ? 1 : 0);
  std::int64_t const most = model.layers + ends;
  std::string const counted = ends == 0 ? "" : fmt::format(" and {} slot{} at the ends", ends, ends == 1 ? "" : "s");
  if (p.pp > most)
    add(reasons, "pp: {} stages for {} layers{}; legal: 1 to {}", p.pp, model.layers, counted, most);
  else if (model_chunks(p) > most)
    add(reasons, "{}: pp {} needs {} chunks of at least one layer, {} has {}{}; at most pp {}{}",
        p.vpp > 1 ? "vpp" : "schedule", p.pp, model_chunks(p), model.name, model.layers, counted,
        most / chunks_per_rank(p),
        ends == 0 && model_chunks(p) <= model.layers + 2
            ? ", or embedding and head as layers (--embedding-slot --head-slot)"
            : "");
}

void add_stage_ends(ModelConfig const& model, Cut const& p, Reasons& reasons) {
  bool const given = p.first_stage_layers > 0 || p.last_stage_layers > 0;
  char const* const flag = p.first_stage_layers > 0 ? "first-stage-layers" : "last-stage-layers";
  if (given && p.pp == 1) return add(reasons, "{}: given with pp 1, whose stage has all; legal with pp >= 2", flag);
  if (given && (p.embedding_slot || p.head_slot))
    return add(reasons, "{}: given with embedding-slot or head-slot, which say it too; legal: one of them", flag);
  if (!given || model.layers < 1) return;
  try {
    piece_layers(model, p);
  } catch (IllegalConfig const& refusal) {
    reasons.emplace_back(refusal.what());
  }
}

void add_pipeline(ModelConfig const& model, Cut const& p, bool laid_out, Reasons& reasons) {
  ScheduleRules const& rules = rules_of(p.schedule);
  if (!laid_out) add_pieces(model, p, reasons);
  if (!laid_out && reasons.empty()) add_stage_ends(model, p, reasons);
  if (p.vpp > 1 && !rules.takes_vpp())
    add(reasons, "vpp: {} given, schedule {} has {} chunk{} a stage; legal: 1, or schedule interleaved", p.vpp,
        rules.name, rules.fixed_chunks, rules.fixed_chunks == 1 ? "" : "s");
  if (p.vpp > 1 && p.pp == 1) add(reasons, "vpp: {} given with pp 1; legal: 1, or pp >= 2", p.vpp);
  if (rules.takes_vpp() && p.vpp == 1) add(reasons, "schedule: {} needs vpp >= 2, 1 given", rules.name);
  if (rules.even_stages && p.pp % 2 != 0)
    add(reasons, "pp: {} given, {} needs an even pp; legal: {}", p.pp, rules.name,
        p.pp == 1 ? "2, 4, 6, ..." : fmt::format("{}, {}", p.pp - 1, p.pp + 1));
}

void add_states(Cut const& p, Reasons& reasons) {
  if (p.zero_stage < 0 || p.zero_stage > 3) add(reasons, "zero: {} given; legal: 0, 1, 2, 3", p.zero_stage);
  if (p.zero_keep == ZeroKeep::weights && p.zero_stage != 3)
    add(reasons, "zero-keep: weights given with zero {}, which cuts none; legal: none, or zero 3", p.zero_stage);
  if (p.zero_keep == ZeroKeep::all && p.zero_stage < 2)
    add(reasons, "zero-keep: all given with zero {}, which cuts no gradients; legal: none, or zero 2 and 3",
        p.zero_stage);
  if (p.shard_ranks == 0) return;
  if (p.zero_stage == 0) add(reasons, "shard-ranks: {} given with zero 0; legal with zero 1 to 3", p.shard_ranks);
  if (p.shard_ranks < 0 || p.dp % p.shard_ranks != 0)
    add(reasons, "shard-ranks: {} does not divide dp {}; legal: {}", p.shard_ranks, p.dp,
        list_text(divisors(p.dp, 4096)));
}

/// Every context rank takes whole heads of what its tensor rank has, keys and values of their own among them.
void add_ulysses(ModelConfig const& model, Cut const& p, Reasons& reasons) {
  std::int64_t const heads = std::max<std::int64_t>(1, model.heads / p.tp);
  std::int64_t const kv_heads = model.mla ? heads : std::max<std::int64_t>(1, model.kv_heads / p.tp);
  auto const check = [&](std::int64_t count, char const* what) {
    if (count % p.cp == 0) return true;
    add(reasons, "cp: {} does not divide the {} {} heads a tp rank has (ulysses); legal: {}", p.cp, count, what,
        list_text(divisors(std::gcd(heads, kv_heads), 4096)));
    return false;
  };
  if (check(heads, "query")) check(kv_heads, "kv");
}

/// What is computed again must be there, and must not be computed again already.
void add_recomputation(ModelConfig const& model, Cut const& p, std::vector<std::int64_t> const& pieces,
                       Reasons& reasons) {
  if (!p.recompute_modules.empty()) {
    Reasons legal;
    for (RecomputeModule const m : enum_values<RecomputeModule>())
      if (has_module(model, m)) legal.emplace_back(to_string(m));
    for (RecomputeModule const m : enum_values<RecomputeModule>())
      if (p.recompute_modules.has(m) && !has_module(model, m))
        add(reasons, "recompute-modules: {} given, {} has no such part; legal: {}", to_string(m), model.name,
            legal.empty() ? "none" : fmt::format("{}", fmt::join(legal, ", ")));
    if (p.recompute == Recompute::full && p.recompute_layers == 0)
      add(reasons,
          "recompute-modules: {} given with recompute full, which has all of each layer; legal with none, selective, "
          "or "
          "full and recompute-layers",
          to_string(p.recompute_modules));
  }
  if (p.recompute_layers == 0) return;
  if (p.recompute == Recompute::none && p.recompute_modules.empty())
    add(reasons, "recompute-layers: {} given with recompute none; legal with selective or full", p.recompute_layers);
  std::int64_t const slots = model.layers + (p.embedding_slot ? 1 : 0) + (p.head_slot ? 1 : 0);
  if (!reasons.empty() || (pieces.empty() && model_chunks(p) > slots)) return;
  std::int64_t const most = std::ranges::max(pieces.empty() ? piece_layers(model, p) : pieces);
  if (p.recompute_layers > most)
    add(reasons, "recompute-layers: {} given, a chunk has {} of the {} layers at most; legal: 1 to {}",
        p.recompute_layers, most, model.layers, most);
}

void add_tensor_details(ModelConfig const& model, Cut const& p, Reasons& reasons) {
  if (!(p.tp_sync_fraction >= 0 && p.tp_sync_fraction <= 1))
    add(reasons, "tp-sync-fraction: {} given; legal: 0 to 1", p.tp_sync_fraction);
  if (p.tp_sync_fraction < 1 && p.sequence_parallel)
    add(reasons, "tp-sync-fraction: {} given with sequence-parallel: private channels cannot be cut along the sequence",
        p.tp_sync_fraction);
  if (p.cp > 1 && p.cp_method == CpMethod::ulysses) add_ulysses(model, p, reasons);
}

}  // namespace

std::string list_text(std::vector<std::int64_t> const& values) { return fmt::format("{}", fmt::join(values, ", ")); }

std::vector<std::int64_t> legal_tp(ModelConfig const& model, std::int64_t limit) {
  if (model.yolo) return {1};
  std::vector<CutDim> const dims = tp_dims(model);
  std::vector<std::int64_t> result;
  for (std::int64_t tp = 1; tp <= limit && tp <= model.heads; ++tp)
    if (tp_fits(model, dims, tp)) result.push_back(tp);
  return result;
}

std::vector<std::string> illegal_reasons(ModelConfig const& model, Cut const& p,
                                         std::vector<std::int64_t> const& pieces) {
  Reasons reasons;
  for (auto const& [name, degree] : named_degrees(p))
    if (degree < 1) add(reasons, "{}: {} given; legal: 1 and more", name, degree);
  if (!reasons.empty()) return reasons;
  double product = 1;
  for (std::int64_t const degree : {p.dp, p.tp, p.pp, p.cp}) product *= static_cast<double>(degree);
  if (product > 1e9) return {fmt::format("ranks: dp*tp*pp*cp = {:.3g}; at most 1e9", product)};
  if (model.yolo) {
    for (auto const& [name, degree] : named_degrees(p))
      if (degree > 1 && name != to_string(Axis::dp))
        add(reasons, "{}: {} given, {} is cut over data only; legal: 1", name, degree, model.name);
    if (p.zero_stage == 3 && p.dp > 1)
      add(reasons, "zero: 3 given, layers of {} read one another's outputs far apart; legal: 0, 1, 2", model.name);
    add_states(p, reasons);
    add_recomputation(model, p, {}, reasons);
    return reasons;
  }
  add_tp(model, p.tp, reasons);
  add_experts(model, p, reasons);
  add_pipeline(model, p, !pieces.empty(), reasons);
  add_states(p, reasons);
  add_tensor_details(model, p, reasons);
  add_recomputation(model, p, pieces, reasons);
  return reasons;
}

}  // namespace shardbench
