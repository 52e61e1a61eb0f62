#include "bench/shardbench/plan/plan_flags.hpp"

#include <fmt/format.h>

#include <span>
#include <vector>

#include "harness/config/stage_layout.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {
namespace {

std::string torchtitan_schedule(ScheduleRules const& rules) {
  return rules.torchtitan.empty() ? fmt::format("[no option for schedule {}]", rules.name)
                                  : fmt::format("--parallelism.pipeline_parallel_schedule {}", rules.torchtitan);
}

/// How many pieces in a row hold how many layers.
struct LayerRun {
  std::int64_t layers, pieces;
};

std::vector<LayerRun> layer_runs(std::span<std::int64_t const> pieces) {
  std::vector<LayerRun> runs;
  for (std::int64_t const layers : pieces)
    if (!runs.empty() && runs.back().layers == layers)
      ++runs.back().pieces;
    else
      runs.push_back({layers, 1});
  return runs;
}

bool splits_unevenly(Experiment const& e) { return layer_runs(piece_layers(e)).size() > 1; }

// E embedding, t layer, m multi-token prediction, L loss; | ends a piece, *n repeats what stands before it.
std::string megatron_layout(Experiment const& e) {
  std::vector<std::int64_t> const pieces = piece_layers(e);
  auto const times = [](std::string_view what, std::int64_t n) {
    return n == 0 ? std::string() : n == 1 ? std::string(what) : fmt::format("{}*{}", what, n);
  };
  std::string text = "E";
  for (LayerRun const& run : layer_runs(std::span(pieces).first(pieces.size() - 1)))
    text += run.pieces == 1 ? times("t", run.layers) + "|" : times("(" + times("t", run.layers) + "|)", run.pieces);
  text += times("t", pieces.back());
  if (e.mtp > 0) text += times("m", e.mtp);
  return text + "L";
}

std::string megatron_pipeline(Experiment const& e) {
  Cut const& p = e.cut;
  ScheduleRules const& rules = rules_of(p.schedule);
  if (p.pp > 1 && !rules.megatron) return fmt::format(" [no flag for schedule {}]", rules.name);
  // A layout says the number of virtual stages itself, and is refused beside a flag that says it too.
  if (splits_unevenly(e)) return fmt::format(" --pipeline-model-parallel-layout '{}'", megatron_layout(e));
  return p.vpp > 1 ? fmt::format(" {} {}", *rules.megatron, p.vpp) : "";
}

std::string megatron_zero(int stage) {
  if (stage == 0) return "";
  if (stage == 1) return " --use-distributed-optimizer";
  return fmt::format(
      " --use-megatron-fsdp --data-parallel-sharding-strategy {} --use-distributed-optimizer --ckpt-format "
      "fsdp_dtensor --no-gradient-accumulation-fusion [CUDA_DEVICE_MAX_CONNECTIONS must not be 1]",
      stage == 2 ? "optim_grads" : "optim_grads_params");
}

std::string megatron_experts(Experiment const& e) {
  Cut const& p = e.cut;
  if (!e.model.moe || (p.ep == 1 && p.tp == 1)) return "";
  // Its experts are cut like the rest unless told otherwise.
  return fmt::format(" --expert-model-parallel-size {} --expert-tensor-parallel-size {}{}", p.ep, p.etp,
                     p.tp > 1 && !p.sequence_parallel
                         ? " [refuses experts under tensor parallelism without --sequence-parallel]"
                         : "");
}

/// Whether torchtitan ships model code of this architecture: llama3, llama4, qwen3 or deepseek_v3.
bool torchtitan_has(ModelConfig const& m) {
  if (m.norm != NormKind::rms_norm || m.post_norms || m.qkv_bias || m.mlp_bias || m.sliding_window > 0 ||
      m.parallel_block || m.vision || !m.gated_mlp || m.embedding_scale != 1 || m.logit_softcap != 0)
    return false;
  if (m.mla) return m.moe.has_value();
  if (m.unrotated_step > 0) return m.moe.has_value();
  return m.qk_norm || (m.family == "llama" && !m.moe && !m.tied_embeddings && m.rotary_fraction == 1);
}

std::string torchtitan_data_parallel(Cut const& p) {
  bool const alone = p.tp * p.pp * p.cp * p.ep == 1;
  if (p.zero_stage < 2 && alone)
    return fmt::format("--parallelism.data_parallel_replicate_degree {} --parallelism.data_parallel_shard_degree 1{}",
                       p.dp, p.zero_stage == 1 && p.dp > 1 ? " [no option for zero 1]" : "");
  std::string const shard =
      fmt::format("--parallelism.data_parallel_shard_degree {} --parallelism.fsdp_reshard_after_forward {}", p.dp,
                  p.zero_stage == 3 ? "always" : "never");
  // Whole weights on each replica are refused there beside any other cut.
  return p.zero_stage < 2 && p.dp * p.cp > 1
             ? shard + fmt::format(" [no zero {} beside another cut: it shards weights and gradients over dp x cp too]",
                                   p.zero_stage)
             : shard;
}

std::string torchtitan_experts(Experiment const& e) {
  Cut const& p = e.cut;
  if (!e.model.moe) return "";
  if (p.ep == 1) return p.tp == p.etp ? "" : " [without expert parallelism its experts are cut over tp]";
  std::string text = fmt::format(" --parallelism.expert_parallel_degree {}", p.ep);
  // 1 is its default, and all that releases without the option can do.
  if (p.etp > 1) text += fmt::format(" --parallelism.expert_tensor_parallel_degree {}", p.etp);
  std::int64_t const borrowed = p.etp == p.tp ? p.cp : p.cp * p.tp;
  if (p.etp != 1 && p.etp != p.tp)
    text += " [takes 1 or tp as tensor parallel degree of the experts]";
  else if (p.ep % borrowed != 0 || (p.dp * borrowed) % p.ep != 0)
    text += fmt::format(" [refuses ep {}: it takes multiples of {} that divide {}]", p.ep, borrowed, p.dp * borrowed);
  return text;
}

std::string torchtitan_pipeline(Experiment const& e) {
  Cut const& p = e.cut;
  if (p.pp == 1) return "";
  // By default it takes the embedding and the head for a layer each.
  std::string text = fmt::format(
      " {} --parallelism.pipeline_parallel_microbatch_size {} --parallelism.pipeline_parallel_first_stage_less_layers "
      "0 --parallelism.pipeline_parallel_last_stage_less_layers 0",
      torchtitan_schedule(rules_of(p.schedule)), e.micro_batch);
  if (splits_unevenly(e)) {
    std::string pieces;
    for (LayerRun const& run : layer_runs(piece_layers(e)))
      pieces += fmt::format("{}{} of {}", pieces.empty() ? "" : ", ", run.pieces, run.layers);
    return text + fmt::format(
                      " [{} layers over {} chunks: name the modules of each in "
                      "parallelism.module_fqns_per_model_part, with {} layers]",
                      e.model.layers, model_chunks(p), pieces);
  }
  if (p.vpp > 1)
    text += fmt::format(" --parallelism.pipeline_parallel_layers_per_stage {}", e.model.layers / model_chunks(p));
  return text;
}

std::string torchtitan_precision(Experiment const& e) {
  Cut const& p = e.cut;
  std::string text;
  if (e.precision == Dtype::f32) text += " --training.mixed_precision_param float32";
  if (e.precision == Dtype::bf16 && p.dp * p.cp == 1 && p.tp * p.pp > 1)
    text += " [its mixed precision takes effect beside tp or pp only with data or context parallelism]";
  if (e.gradient_dtype == Dtype::bf16)
    text +=
        " --training.mixed_precision_reduce bfloat16 [some releases take float32 only; kept in float32 once "
        "reduced]";
  return text;
}

std::string megatron_recompute(Cut const& p) {
  if (p.recompute == Recompute::full)
    return " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (p.recompute == Recompute::none && p.recompute_modules.empty()) return "";
  std::string text = " --recompute-granularity selective", modules;
  for (RecomputeModule const m : enum_values<RecomputeModule>())
    if (p.recompute_modules.has(m) && m != RecomputeModule::activation) modules += fmt::format(" {}", to_string(m));
  if (!modules.empty()) text += " --recompute-modules" + modules;
  return p.recompute_modules.has(RecomputeModule::activation) ? text + " [no module for the dense MLP's activation]"
                                                              : text;
}

}  // namespace

std::string cut_text(Experiment const& e) {
  std::string const cut = to_string(e.cut);
  return fmt::format("{}{}mb {}", cut, cut.empty() ? "" : ", ", e.micro_batch);
}

std::string megatron_flags(Experiment const& e, SoftwareStack const& stack) {
  if (e.model.yolo) return "[Megatron-LM has no detectors]";
  Cut const& p = e.cut;
  std::string text = fmt::format("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", p.tp, p.pp);
  text += megatron_pipeline(e);
  if (p.cp > 1) text += fmt::format(" --context-parallel-size {}", p.cp);
  text += megatron_experts(e);
  if (p.sequence_parallel) text += " --sequence-parallel";
  if (p.tp_overlap != TpOverlap::none)
    text += p.sequence_parallel ? " --tp-comm-overlap" : " [no flag for overlap without sequence parallelism]";
  text += megatron_zero(p.zero_stage);
  // From ZeRO 2 on reductions go beside compute whatever the stack, as they do there only when asked to.
  if (p.dp > 1 && (stack.dp_overlap || p.zero_stage > 1)) text += " --overlap-grad-reduce";
  if (p.dp > 1 && (p.zero_stage == 3 || (p.zero_stage > 0 && stack.dp_overlap && stack.gather_with_forward)))
    text += " --overlap-param-gather";
  if (e.gradient_dtype == Dtype::bf16) text += " --grad-reduce-in-bf16";
  text += megatron_recompute(p);
  return text + fmt::format(" --micro-batch-size {} --global-batch-size {} --seq-length {}{}", e.micro_batch,
                            e.global_batch, e.seq, e.precision == Dtype::bf16 ? " --bf16" : "");
}

std::string torchtitan_flags(Experiment const& e) {
  if (e.model.yolo) return "[torchtitan has no detectors]";
  Cut const& p = e.cut;
  std::string text = torchtitan_has(e.model) ? "" : "[torchtitan has no such model] ";
  text += fmt::format("--parallelism.tensor_parallel_degree {} --parallelism.pipeline_parallel_degree {} {}", p.tp,
                      p.pp, torchtitan_data_parallel(p));
  if (p.tp > 1 && !p.sequence_parallel) text += " [sequence parallelism is on, and only some releases can do without]";
  if (p.tp_overlap != TpOverlap::none) text += " --parallelism.enable_async_tensor_parallel --compile.enable";
  if (p.cp > 1) text += fmt::format(" --parallelism.context_parallel_degree {}", p.cp);
  text += torchtitan_experts(e) + torchtitan_pipeline(e) + torchtitan_precision(e);
  text += fmt::format(" --activation_checkpoint.mode {}", to_string(p.recompute));
  if (p.recompute == Recompute::selective)
    text += " [keeps attention and every other GEMM, where the plan recomputes attention alone]";
  // Its local batch passes the pipeline at once; without a pipeline it is a microbatch, and gradients accumulate.
  std::int64_t const local = p.pp > 1 ? e.global_batch / p.dp : e.micro_batch;
  return text + fmt::format(" --training.local_batch_size {} --training.global_batch_size {} --training.seq_len {}",
                            local, e.global_batch, e.seq);
}

}  // namespace shardbench
