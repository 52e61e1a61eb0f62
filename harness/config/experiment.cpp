#include "harness/config/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/config/field_text.hpp"
#include "harness/config/reasons.hpp"
#include "harness/config/size_rules.hpp"
#include "harness/config/stage_layout.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

void cut_layers(Experiment& e) {
  if (e.layers == 0 || e.layers == e.model.layers) return;
  if (e.layers > e.model.layers)
    throw InputError(
        fmt::format("--layers: {} is more than the {} that {} has", e.layers, e.model.layers, e.model.name));
  if (e.model.yolo)
    throw InputError(fmt::format("--layers: {} given, a detector such as {} is not cut", e.layers, e.model.name));
  e.model.layers = e.layers;
}

/// Images of another size and heads of other classes than the model's own.
void set_images(Experiment& e) {
  ModelConfig& m = e.model;
  if (e.image_size > 0) {
    if (!m.takes_images())
      throw InputError(fmt::format("--image-size: {} given, {} takes no images", e.image_size, m.name));
    std::int64_t const step = m.vision ? m.vision->patch_size : 32;
    if (e.image_size % step != 0)
      throw InputError(fmt::format("--image-size: {} is not a multiple of {} ({}'s {})", e.image_size, step, m.name,
                                   m.vision ? "patch" : "largest stride"));
    if (m.vision) m.vision->image_size = e.image_size, m.max_positions = m.vision_tokens();
    if (m.yolo) m.yolo->image_size = e.image_size;
  }
  if (e.classes == 0) return;
  if (!m.takes_images()) throw InputError(fmt::format("--classes: {} given, {} classifies nothing", e.classes, m.name));
  (m.vision ? m.vision->classes : m.yolo->classes) = e.classes;
}

/// A layout says how many chunks a stage has where nothing else does.
void set_chunks_of_layout(Experiment& e) {
  Cut& c = e.cut;
  bool const takes_chunks = c.schedule == plain_schedule || rules_of(c.schedule).takes_vpp();
  if (e.pipeline_layout.empty() || c.vpp > 1 || c.pp < 2 || !takes_chunks || e.given.contains("schedule")) return;
  std::int64_t const pieces = std::ssize(parse_pipeline_layout(e.pipeline_layout));
  if (pieces % c.pp == 0) c.vpp = pieces / c.pp;
}

void fill_seq(Experiment& e) {
  if (e.seq > 0) return;
  constexpr std::int64_t usual = 1024;
  std::int64_t const longest = e.model.max_positions > 0 ? e.model.max_positions : usual;
  e.seq = e.model.vision ? e.model.vision_tokens() : e.model.yolo ? 1 : std::min(usual, longest);
}

void check_batch(Experiment const& e, Reasons& reasons) {
  std::int64_t const step = e.micro_batch * e.cut.dp;
  if (e.global_batch % step == 0 && e.global_batch > 0) return;
  std::int64_t const below = e.global_batch / step * step;
  add(reasons, "global-batch: {} is not a multiple of micro-batch * dp = {} * {} = {}; nearest: {}{}", e.global_batch,
      e.micro_batch, e.cut.dp, step, below > 0 ? fmt::format("{}, ", below) : "", below + step);
}

/// Counts of elements are exact integers, so that a step beyond any device must not reach their end.
void check_size(Experiment const& e, Reasons& reasons) {
  constexpr double most = 0x1p48;
  ModelConfig const& m = e.model;
  double const side = m.yolo ? static_cast<double>(m.yolo->image_size) : 0;
  double const positions = m.yolo ? side * side : static_cast<double>(e.phase == PhaseKind::decode ? e.context : e.seq);
  double const tokens = positions * static_cast<double>(e.micro_batch);
  double const width =
      static_cast<double>(e.phase == PhaseKind::decode ? std::max(m.hidden, std::int64_t{1})
                                                       : std::max({m.hidden, m.ffn_hidden, m.vocab, std::int64_t{1}}));
  if (tokens * width > most)
    add(reasons, "micro-batch: {} * {:g} tokens * width {:g} are {:.3g} elements; at most {:.3g}", e.micro_batch,
        positions, width, tokens * width, most);
}

/// How a sequence that a cut does not divide can be made to fit: text is padded, the patches of an image are not (C12).
std::string fit_text(Experiment const& e, std::int64_t padded) {
  if (!e.model.vision) return fmt::format("pad to {}", padded);
  VisionConfig const& v = *e.model.vision;
  std::int64_t const side = v.image_size / v.patch_size;
  return fmt::format("an image of {} makes {}*{} patches{}, which are not padded: choose another --image-size or cut",
                     v.image_size, side, side, v.class_token ? " and a class token" : "");
}

void check_seq(Experiment const& e, Reasons& reasons) {
  ModelConfig const& model = e.model;
  Cut const& p = e.cut;
  if (model.yolo) {
    if (e.seq != 1) add(reasons, "seq: {} given, {} has no tokens; legal: 1 (size: --image-size)", e.seq, model.name);
    if (e.dropout > 0) add(reasons, "dropout: {} given, {} has none; legal: 0", e.dropout, model.name);
    return;
  }
  if (e.loss_chunks > 1 && model.takes_images())
    add(reasons, "loss-chunks: {} given, {} has no logits of tokens; legal: 1", e.loss_chunks, model.name);
  if (e.loss_chunks > 1 && p.tp_sync_fraction < 1)
    add(reasons, "loss-chunks: {} given with tp-sync-fraction {}, whose streams each have a head; legal: 1",
        e.loss_chunks, p.tp_sync_fraction);
  if (model.vision && e.seq != model.vision_tokens())
    add(reasons, "seq: {} given, an image of {} makes {} tokens", e.seq, model.name, model.vision_tokens());
  if (model.position == PositionKind::learned && e.seq > model.max_positions)
    add(reasons, "seq: {} given, {} has {} learned positions", e.seq, model.name, model.max_positions);
  if (e.phase == PhaseKind::decode && (p.cp > 1 || p.sequence_parallel)) return;
  // A causal sequence is cut in zigzag: two pieces a rank, so that all ranks do the same work.
  bool const zigzag = model.causal && p.cp_method != CpMethod::ulysses;
  std::int64_t const pieces = p.cp == 1 ? 1 : zigzag ? 2 * p.cp : p.cp;
  if (e.seq % pieces != 0) {
    add(reasons, "cp: seq {} is not a multiple of {} = {}; {}", e.seq, zigzag ? "2*cp" : "cp", pieces,
        fit_text(e, round_up(e.seq, pieces)));
    return;
  }
  if (p.sequence_parallel && e.seq / p.cp % p.tp != 0)
    add(reasons, "sequence-parallel: the {} tokens of a cp rank are not a multiple of tp {}; {}", e.seq / p.cp, p.tp,
        fit_text(e, round_up(e.seq, pieces * p.tp)));
}

void check_prediction(Experiment const& e, Reasons& reasons) {
  if (e.mtp == 0) return;
  if (e.mtp > e.model.mtp_layers)
    add(reasons, "mtp: {} given, {} has {} prediction layers; legal: {}", e.mtp, e.model.name, e.model.mtp_layers,
        e.model.mtp_layers > 0 ? fmt::format("0 to {}", e.model.mtp_layers) : "0");
  if (e.phase != PhaseKind::train) add(reasons, "mtp: {} given, {} has no loss; legal: 0", e.mtp, to_string(e.phase));
  if (e.scope == Scope::layer) add(reasons, "mtp: {} given, scope layer has no head; legal: 0, or scope model", e.mtp);
}

void check_phase(Experiment const& e, Reasons& reasons) {
  std::string_view const phase = to_string(e.phase);
  if (e.phase != PhaseKind::decode && e.context > 0)
    add(reasons, "context: {} given, {} has no cache before it; legal with phase decode", e.context, phase);
  if (e.phase == PhaseKind::train) return;
  if (e.model.position == PositionKind::learned && e.context >= e.model.max_positions)
    add(reasons, "context: {} given, {} has {} learned positions; legal: 1 to {}", e.context, e.model.name,
        e.model.max_positions, e.model.max_positions - 1);
  if (e.cut.schedule != ScheduleKind::one_f_one_b && e.cut.schedule != ScheduleKind::gpipe)
    add(reasons, "schedule: {} given, {} has no backward pass; legal: gpipe, 1f1b", to_string(e.cut.schedule), phase);
  if (e.model.takes_images()) add(reasons, "phase: {} given, {} generates nothing; legal: train", phase, e.model.name);
  if (!e.cut.recompute_modules.empty())
    add(reasons, "recompute-modules: {} given, {} has no backward pass; legal: none",
        to_string(e.cut.recompute_modules), phase);
  if (e.cut.recompute != Recompute::none)
    add(reasons, "recompute: {} given, {} has no backward pass; legal: none", to_string(e.cut.recompute), phase);
  if (e.cut.zero_stage > 0) add(reasons, "zero: {} given, {} has no optimizer; legal: 0", e.cut.zero_stage, phase);
  if (e.dropout > 0) add(reasons, "dropout: {} given, {} drops nothing; legal: 0", e.dropout, phase);
  if (e.clip_grad > 0) add(reasons, "clip-grad: {} given, {} has no gradients; legal: 0", e.clip_grad, phase);
  if (e.phase == PhaseKind::decode && e.cut.cp > 1)
    add(reasons, "cp: {} given, a decoded token is not cut; legal: 1", e.cut.cp);
  if (e.phase == PhaseKind::decode && e.cut.sequence_parallel)
    reasons.push_back("sequence-parallel: given, a decoded token is not cut; legal: false");
}

/// A token visits an expert once, so the busiest expert has at most all tokens.
void check_routing(Experiment const& e, Reasons& reasons) {
  if (!e.model.moe) {
    for (auto const& [flag, given] : {std::pair{"router-skew", e.router_skew > 0},
                                      {"capacity", e.capacity > 0},
                                      {"routing", e.routing != RoutingKind::prescribed}})
      if (given) return add(reasons, "{}: given, {} has no experts", flag, e.model.name);
    return;
  }
  MoeConfig const& moe = *e.model.moe;
  double const most = static_cast<double>(moe.experts) / static_cast<double>(moe.top_k);
  if (e.router_skew != 0 && !(e.router_skew >= 1 && e.router_skew <= most))
    add(reasons, "router-skew: {} given; legal: 0 (balance), or 1 to {:.4g} = {} experts / top {}", e.router_skew, most,
        moe.experts, moe.top_k);
  if (e.router_skew > 1 && e.routing == RoutingKind::learned)
    add(reasons, "router-skew: {} given, learned routing has its own; legal: 0", e.router_skew);
  if (e.routing == RoutingKind::learned && e.check && e.precision != Dtype::f32)
    add(reasons,
        "routing: learned with check in {}: roundings change the choice among near equals; legal: prescribed, or fp32",
        to_string(e.precision));
}

/// FP8 products need multiples of 16 in the local widths and of 8 in the tokens (case S08).
void check_fp8(Experiment const& e, Reasons& reasons) {
  if (e.precision != Dtype::fp8 || e.model.yolo) return;
  ModelConfig const& m = e.model;
  std::int64_t const tokens = e.micro_batch * (e.phase == PhaseKind::decode ? 1 : e.seq / e.cut.cp);
  auto const check = [&](std::string_view what, std::int64_t width) {
    std::string const problem = fp8_problem(tokens, width);
    if (!problem.empty()) add(reasons, "precision: fp8, {}: {}", what, problem);
  };
  check("hidden", m.hidden);
  check("query width of a tp rank", m.heads / e.cut.tp * (m.mla ? m.mla->v_head_dim : m.head_dim));
  check("ffn of a tp rank", m.ffn_hidden / e.cut.tp);
  if (m.moe) check("expert ffn of an etp rank", m.moe->ffn_hidden / e.cut.etp);
}

/// What the model or a strategy file forbids of the cut, whatever the sizes.
Reasons reasons_of_cut(Experiment const& e) {
  std::vector<LayoutPiece> laid_out;
  if (!e.pipeline_layout.empty()) laid_out = parse_pipeline_layout(e.pipeline_layout);
  std::vector<std::int64_t> layers;
  for (LayoutPiece const& piece : laid_out) layers.push_back(piece.layers);
  Reasons reasons = illegal_reasons(e.model, e.cut, layers);
  if (reasons.empty() && !laid_out.empty())
    if (std::string problem = pipeline_layout_problem(e, laid_out); !problem.empty())
      reasons.push_back(std::move(problem));
  if (e.strategy.empty()) return reasons;
  if (e.cut.sequence_parallel)
    reasons.push_back("sequence-parallel: given with a strategy file; legal: false (the file says where blocks lie)");
  if (e.cut.tp_sync_fraction < 1)
    add(reasons,
        "tp-sync-fraction: {} given with a strategy file; legal: 1 (or activations: {{block: {{tp: private(N)}}}} "
        "there)",
        e.cut.tp_sync_fraction);
  return reasons;
}

}  // namespace

std::string_view to_string(Scope scope) { return EnumNames<Scope>{"layer", "model"}[scope]; }

std::string_view to_string(PhaseKind phase) { return EnumNames<PhaseKind>{"train", "prefill", "decode"}[phase]; }

std::string_view to_string(RoutingKind routing) { return EnumNames<RoutingKind>{"prescribed", "learned"}[routing]; }

std::string_view to_string(DeviceKind device) {
  return EnumNames<DeviceKind>{"auto", "cpu", "cuda", "cuda-emulated"}[device];
}

std::vector<std::string> illegal_reasons(Experiment const& e) {
  Reasons reasons = reasons_of_cut(e);
  // The rules below divide by the degrees.
  if (!reasons.empty()) return reasons;
  if (e.ranks != e.cut.ranks()) add(reasons, "ranks: {} given, dp*tp*pp*cp = {} needed", e.ranks, e.cut.ranks());
  check_batch(e, reasons);
  check_size(e, reasons);
  if (reasons.empty())
    if (std::string const problem = microbatches_problem(e.cut.schedule, e.cut.pp, e.microbatches()); !problem.empty())
      reasons.push_back(problem);
  check_seq(e, reasons);
  check_phase(e, reasons);
  check_prediction(e, reasons);
  check_routing(e, reasons);
  check_fp8(e, reasons);
  return reasons;
}

void resolve(Experiment& e) {
  if (e.micro_batch < 1 || e.global_batch < 0 || e.seq < 0 || e.layers < 0 || e.ranks < 0)
    throw InputError(
        fmt::format("sizes: micro-batch {}, global-batch {}, seq {}, layers {}, ranks {}: none may be negative",
                    e.micro_batch, e.global_batch, e.seq, e.layers, e.ranks));
  if (std::string const flag = gpu_only_flag(e); e.device == DeviceKind::cpu && !flag.empty())
    throw InputError(fmt::format("{}: --device cpu has no GPU and no NCCL to tell (allowed: --device cuda)", flag));
  if (e.model.hidden == 0 && !e.model.yolo) e.model = load_model(e.model_name);
  cut_layers(e);
  set_images(e);
  fill_seq(e);
  set_chunks_of_layout(e);
  // vpp has no other meaning than this schedule; any choice of the user stays and is checked.
  if (e.cut.vpp > 1 && e.cut.schedule == ScheduleKind::one_f_one_b && !e.given.contains("schedule"))
    e.cut.schedule = ScheduleKind::interleaved;
  if (e.global_batch == 0) e.global_batch = e.micro_batch * e.cut.dp;
  if (e.phase == PhaseKind::decode && e.context == 0) e.context = e.seq - 1;
  Reasons early = contradictions(e);
  if (early.empty()) early = reasons_of_cut(e);
  if (e.ranks == 0 && early.empty()) e.ranks = e.cut.ranks();
  Reasons const reasons = early.empty() ? illegal_reasons(e) : early;
  if (!reasons.empty()) throw IllegalConfig(fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace shardbench
