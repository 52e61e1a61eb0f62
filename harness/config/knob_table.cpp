// The table of knobs: a knob is one row here, a member of Experiment or Cut, and its use.
#include <algorithm>
#include <array>
#include <limits>

#include "harness/config/knob.hpp"
#include "harness/config/knob_kinds.hpp"
#include "harness/config/stage_layout.hpp"
#include "harness/schedule/schedule_rules.hpp"

namespace shardbench {
namespace {

using namespace knob_kinds;
using cell_text::known;
using Knobs = std::vector<Knob>;

constexpr std::int64_t degree_limit = std::int64_t{1} << 20;
constexpr std::int64_t batch_limit = std::int64_t{1} << 30;

/// Ranks that hold copies of a weight: what ZeRO and gradient buckets work on. Experts have copies of their own.
constexpr KnobNeed copies{"dp 1", "dp or cp >= 2", [](Experiment const& e) {
                            Cut const& c = e.cut;
                            return c.dp * c.cp > 1 || (e.model.moe && c.tp > c.etp * c.ep);
                          }};
constexpr KnobNeed tensor_ranks{"tp 1", "tp >= 2", [](Experiment const& e) { return e.cut.tp > 1; }};
constexpr KnobNeed context_ranks{"cp 1", "cp >= 2", [](Experiment const& e) { return e.cut.cp > 1; }};
constexpr KnobNeed stages{"pp 1", "pp >= 2", [](Experiment const& e) { return e.cut.pp > 1; }};
constexpr KnobNeed peers{"one rank", "ranks >= 2", [](Experiment const& e) { return e.cut.ranks() > 1; }};

/// A set of the parts of a layer.
Knob recompute_parts(std::string flag, std::string help) {
  auto set = [=](Experiment& e, std::string_view text) {
    e.cut.recompute_modules = parse_recompute_modules(flag, text);
  };
  auto get = [](Experiment const& e) {
    return e.cut.recompute_modules.empty() ? std::string("none") : to_string(e.cut.recompute_modules);
  };
  std::string allowed = "none";
  for (RecomputeModule const m : enum_values<RecomputeModule>()) allowed += fmt::format("|{}", to_string(m));
  return {flag, allowed, std::move(help), CellKind::text, set, get};
}

/// The pieces of the model, as text that is read when it is set.
Knob stage_layout(std::string flag, std::string help) {
  auto set = [](Experiment& e, std::string_view text) {
    parse_pipeline_layout(text);
    e.pipeline_layout = text;
  };
  auto get = [](Experiment const& e) { return e.pipeline_layout; };
  return {flag, "layout as Megatron writes it (Et*3|(tt|)*29,m|L)", std::move(help), CellKind::text, set, get};
}

/// What a layout says already.
std::string beside_layout(Experiment const& e) {
  return e.pipeline_layout.empty() ? "" : "a pipeline-layout, which says the layers of every piece; legal without it";
}

bool has_experts(Experiment const& e) { return e.model.moe.has_value(); }
bool in_chunks(Experiment const& e) { return e.cut.tp_overlap == TpOverlap::chunked; }

/// What an experiment has that does not train, in the words of a contradiction; empty when it trains.
std::string without_gradients(Experiment const& e) {
  if (e.phase == PhaseKind::train) return {};
  return fmt::format("phase {}, which has no gradients; legal with phase train", to_string(e.phase));
}

std::string image_size_cell(Experiment const& e) {
  if (e.model.vision) return known(e.model.vision->image_size);
  return known(e.model.yolo ? e.model.yolo->image_size : e.image_size);
}

std::string classes_cell(Experiment const& e) {
  if (e.model.vision) return known(e.model.vision->classes);
  return known(e.model.yolo ? e.model.yolo->classes : e.classes);
}

std::string shard_ranks_cell(Experiment const& e) {
  if (e.cut.zero_stage == 0) return {};
  return known(e.cut.shard_ranks != 0 ? e.cut.shard_ranks : e.cut.dp);
}

// Access functions serve reading and writing, hence `auto&`.
#define SB_FIELD(member) \
  [](auto& e) -> auto& { return e.member; }

Knobs model_knobs() {
  Knobs knobs{
      path("model", "preset or path of a config.json", "what to run (`shardbench models` lists the presets)",
           SB_FIELD(model_name))
          .what("model", "Preset name or path of the model's config.json."),
      integer("layers", "layers to keep; all when not given", 1, degree_limit, SB_FIELD(layers))
          .what("layers", "Transformer blocks that ran, after --layers.")
          .shown_as([](Experiment const& e) { return known(e.model.layers); }),
      integer("image-size", "pixels a side of a vision model's images; the model's own when not given", 1, 65536,
              SB_FIELD(image_size))
          .what("image_size", "Pixels a side of the images; empty for text.", "pixels")
          .shown_as(image_size_cell),
      integer("classes", "classes of a vision model's head; the model's own when not given", 1, 65536,
              SB_FIELD(classes))
          .what("classes", "Classes of a vision model's head; empty where there is none.")
          .shown_as(classes_cell),
  };
  // A model that was resolved for other values is stale.
  for (Knob& knob : knobs)
    knob.set = [set = knob.set](Experiment& e, std::string_view text) {
      set(e, text);
      e.model = {};
    };
  return knobs;
}

Knobs size_knobs() {
  return {
      integer("seq", "tokens of a sample", 1, batch_limit, SB_FIELD(seq))
          .what("seq", "Sequence length.", "tokens")
          .empty_at_zero(),
      integer("micro-batch", "samples a rank takes at once", 1, batch_limit, SB_FIELD(micro_batch))
          .what("micro_batch", "Samples that a rank takes at once.", "samples")
          .varied_by_plans(),
      integer("global-batch",
              "samples a step over all ranks; micro-batch * dp when not given (a plan of training needs it)", 1,
              batch_limit, SB_FIELD(global_batch))
          .what("global_batch", "Samples of one step over all ranks.", "samples")
          .empty_at_zero(),
      choice("precision", "of weights and activations in compute", std::vector{Dtype::f32, Dtype::bf16, Dtype::fp8},
             SB_FIELD(precision))
          .what("precision", "Dtype of weights and activations in compute.")
          .from({"precision", "--precision fp32|bf16",
                 "storage of weights and activations; products accumulate in fp32, masters are fp32",
                 "Micikevicius et al. 2018, Mixed Precision Training"}),
      integer("vocab-divisible-by", "the vocabulary is padded to multiples of this times tp", 1, 65536,
              SB_FIELD(vocab_divisible_by))
          .what("vocab_divisible_by", "The vocabulary is padded to multiples of this times tp.")
          .from({"vocabulary padding", "--vocab-divisible-by N",
                 "the vocabulary is padded to multiples of N times tp (Megatron: --make-vocab-size-divisible-by)",
                 "Shoeybi et al. 2019, Megatron-LM"}),
      choice("gradient-dtype", "in which gradients are kept and reduced", std::vector{Dtype::f32, Dtype::bf16},
             SB_FIELD(gradient_dtype))
          .never_with(
              [](Experiment const& e) { return e.gradient_dtype == Dtype::f32 ? std::string() : without_gradients(e); })
          .cut("gradient_dtype", "Dtype in which gradients are kept and reduced.")
          .from({"gradient dtype", "--gradient-dtype fp32|bf16",
                 "in which gradients are kept and reduced; bf16 with bf16 weights halves both",
                 "Micikevicius et al. 2018, Mixed Precision Training"}),
  };
}

Knobs degree_knobs() {
  auto const degree = [](char const* flag, char const* help, char const* description, auto access) {
    return integer(flag, help, 1, degree_limit, access).cut(flag, description).varied_by_plans();
  };
  return {
      degree("dp", "data-parallel degree", "Data-parallel degree.", SB_FIELD(cut.dp))
          .from({"data parallel", "--dp N",
                 "copies of the model take parts of the batch; gradients are all-reduced in buckets during backward",
                 "Li et al. 2020, PyTorch Distributed"}),
      degree("tp", "tensor-parallel degree", "Tensor-parallel degree.", SB_FIELD(cut.tp))
          .from({"tensor parallel", "--tp N",
                 "each weight is cut by columns, then rows; heads and the vocabulary are split",
                 "Shoeybi et al. 2019, Megatron-LM"}),
      degree("pp", "pipeline stages", "Pipeline stages.", SB_FIELD(cut.pp))
          .from({"pipeline parallel", "--pp N", "layers are spread over stages that pass microbatches on",
                 "Huang et al. 2019, GPipe"}),
      degree("vpp", "model chunks per stage; above 1 means the interleaved schedule", "Model chunks per stage.",
             SB_FIELD(cut.vpp)),
      degree("cp", "context-parallel degree", "Context-parallel degree.", SB_FIELD(cut.cp))
          .from({"context parallel", "--cp N", "the sequence is cut over ranks, in zigzag when attention is causal",
                 "Liu et al. 2023, Ring Attention"}),
      choice("cp-method", "how attention crosses the context cut", SB_FIELD(cut.cp_method))
          .cut("cp_method", "ring, all_gather or ulysses; empty when cp is 1.")
          .shown_if(context_ranks.met)
          .needs_even_as_default(context_ranks)
          .from({"context method ring", "--cp-method ring", "keys and values go round while attention computes",
                 "Liu et al. 2023, Ring Attention"})
          .from({"context method all-gather", "--cp-method all-gather", "keys and values are gathered first",
                 "Llama Team 2024, The Llama 3 Herd of Models"})
          .from({"context method ulysses", "--cp-method ulysses",
                 "all-to-all turns the cut of the sequence into one of the heads",
                 "Jacobs et al. 2023, DeepSpeed Ulysses"}),
      degree("ep", "expert-parallel degree", "Expert-parallel degree.", SB_FIELD(cut.ep))
          .from({"expert parallel", "--ep N", "experts are spread over ranks, tokens travel to them by all-to-all",
                 "Lepikhin et al. 2020, GShard"}),
      degree("etp", "tensor-parallel degree of the experts", "Tensor-parallel degree of the experts.",
             SB_FIELD(cut.etp))
          .from({"expert tensor parallel", "--etp N", "each expert is itself cut over N ranks",
                 "Liu et al. 2025, MoE Parallel Folding"}),
  };
}

Knobs state_knobs() {
  return {
      integer("zero", "ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 parameters too", 0, 3,
              SB_FIELD(cut.zero_stage))
          .cut("zero_stage", "What data-parallel ranks shard: 0 nothing, 1 optimizer, 2 gradients too, 3 weights too.")
          .needs(copies)
          .from({"ZeRO", "--zero 0|1|2|3",
                 "data and context ranks shard optimizer states, then gradients, then weights",
                 "Rajbhandari et al. 2020, ZeRO"})
          .varied_by_plans(),
      integer("shard-ranks", "ranks that a ZeRO shard is spread over (HSDP); all of dp when not given", 1, degree_limit,
              SB_FIELD(cut.shard_ranks))
          .cut("shard_ranks",
               "Ranks that a ZeRO shard is spread over (fewer than dp: hybrid sharding); empty for ZeRO 0.")
          .shown_as(shard_ranks_cell)
          .needs(copies)
          .from({"hybrid sharding", "--shard-ranks N",
                 "a ZeRO shard is spread over N ranks, copies over the rest of dp", "Zhao et al. 2023, PyTorch FSDP"}),
      choice("zero-keep",
             "what ZeRO leaves whole between microbatches: weights (zero 3), or gradients too (all; zero 2 and 3)",
             SB_FIELD(cut.zero_keep))
          .cut("zero_keep",
               "What ZeRO leaves whole between microbatches: none, weights, or all (gradients too); empty below ZeRO "
               "2.")
          .shown_if([](Experiment const& e) { return e.cut.zero_stage >= 2; })
          .needs(copies)
          .from({"kept shards", "--zero-keep none|weights|all",
                 "weights are gathered once a step and not for each microbatch; with all, gradients are reduced once "
                 "too",
                 "Zhao et al. 2023, PyTorch FSDP (no resharding, no_sync)"}),
  };
}

Knobs tensor_knobs() {
  return {
      toggle("sequence-parallel", "cut the activations between tp regions along the sequence",
             SB_FIELD(cut.sequence_parallel))
          .cut("sequence_parallel", "Norm regions are cut along the sequence over tp.")
          .needs(tensor_ranks)
          .from({"sequence parallel", "--sequence-parallel",
                 "norm regions are cut along the sequence over tp: reduce-scatter and all-gather in place of "
                 "all-reduce",
                 "Korthikanti et al. 2022, Reducing Activation Recomputation"})
          .varied_by_plans(),
      number("tp-sync-fraction", "share of the channels that tp synchronises", 0, 1, SB_FIELD(cut.tp_sync_fraction))
          .cut("tp_sync_fraction",
               "Share of the channels that tensor parallelism synchronises; below 1 the model differs.")
          .needs(tensor_ranks)
          .from({"partial synchronisation", "--tp-sync-fraction F",
                 "only a share of the channels is synchronised over tp; below 1 the model differs",
                 "Lamprecht et al. 2025, Tensor-Parallelism with Partially Synchronized Activations"}),
      choice("tp-overlap", "overlap tp communication with its GEMM", SB_FIELD(cut.tp_overlap))
          .cut("tp_overlap", "none, or chunked: GEMM and collective in pieces, pipelined.")
          .needs(tensor_ranks)
          .from({"tp overlap", "--tp-overlap none|chunked",
                 "GEMM and collective in pieces, so that one hides the other",
                 "Wang et al. 2023, Overlap Communication with Dependent Computation"})
          .varied_by_plans(),
      integer("tp-overlap-chunks", "pieces that a chunked GEMM and its collective are cut into", 1, 1024,
              SB_FIELD(cut.tp_overlap_chunks))
          .never_with(
              [](Experiment const& e) { return in_chunks(e) ? "" : "tp-overlap none; legal with tp-overlap chunked"; })
          .cut("tp_overlap_chunks", "Pieces of a GEMM and its collective; empty unless tp_overlap is chunked.")
          .shown_if(in_chunks),
  };
}

/// Each schedule's own row tells its source.
std::vector<KnobSource> schedule_sources() {
  std::vector<KnobSource> sources;
  for (ScheduleKind const kind : enum_values<ScheduleKind>()) {
    ScheduleRules const& rules = rules_of(kind);
    std::string const name(rules.name);
    sources.push_back(
        {"schedule " + name, rules.takes_vpp() ? "--vpp N" : "--schedule " + name, rules.summary, rules.source});
  }
  return sources;
}

Knobs schedule_knobs() {
  return {
      choice("schedule", "pipeline schedule", SB_FIELD(cut.schedule))
          .from(schedule_sources())
          .cut("schedule", "Pipeline schedule.")
          .needs_even_as_default(stages)
          .varied_by_plans(),
      choice("recompute", "activations computed again in the backward pass", SB_FIELD(cut.recompute))
          .cut("recompute", "Activations computed again in backward: none, selective or full.")
          .from({"recompute", "--recompute none|selective|full",
                 "activations are computed again in backward: attention only, or whole layers",
                 "Chen et al. 2016, Sublinear Memory Cost; Korthikanti et al. 2022"})
          .varied_by_plans(),
      integer("recompute-layers",
              "layers of each model chunk (a stage has vpp of them) that recompute; all when not given", 1,
              degree_limit, SB_FIELD(cut.recompute_layers))
          .cut("recompute_layers",
               "Layers of a stage that recompute; empty: all of them (recompute says what, or none).")
          .empty_at_zero()
          .from({"recompute some layers", "--recompute-layers N", "only N layers of a stage recompute",
                 "Korthikanti et al. 2022, Reducing Activation Recomputation"}),
      recompute_parts("recompute-modules",
                      "parts of a layer computed again in the backward pass, joined by +; recompute selective alone is "
                      "core_attn")
          .cut("recompute_modules", "Parts of a layer that are computed again, joined by +; empty: as recompute says.")
          .shown_as([](Experiment const& e) { return to_string(e.cut.recompute_modules); })
          .from({"recompute by module", "--recompute-modules LIST",
                 "parts of each layer are computed again in backward, as Megatron Core names them",
                 "Korthikanti et al. 2022; DeepSeek-AI 2024, DeepSeek-V3 Technical Report, section 3.2.3"}),
      path("strategy", "path of a strategy YAML", "weight placements of your own", SB_FIELD(strategy))
          .cut("strategy", "Path of the strategy file; empty for the built-in cut.")
          .needs(tensor_ranks)
          .from({"strategy file", "--strategy FILE.yaml",
                 "weight placements of your own; the collectives are derived from them",
                 "Xu et al. 2021, GSPMD; PyTorch DTensor"}),
      choice("scope", "blocks only, or embeddings, head and loss too", SB_FIELD(scope))
          .cut("scope", "layer: blocks only; model: embeddings, head and loss too."),
      choice("phase", "training step, prompt pass or token generation", SB_FIELD(phase))
          .cut("phase", "train, prefill or decode.")
          .from({"prefill", "--phase prefill",
                 "the prompt in one pass: fills the KV cache (with --cp of its own tokens), chooses the first token",
                 "Pope et al. 2022, Efficiently Scaling Transformer Inference"})
          .from({"decode", "--phase decode --context N",
                 "one token after N cached ones; the KV cache is cut like the heads",
                 "Pope et al. 2022, Efficiently Scaling Transformer Inference"}),
      integer("context", "decode: tokens in the KV cache before the step; seq - 1 when not given", 1, batch_limit,
              SB_FIELD(context))
          .what("context", "Tokens in the KV cache before the step; empty unless decoding.", "tokens")
          .empty_at_zero(),
  };
}

Knobs layout_knobs() {
  return {
      stage_layout("pipeline-layout",
                   "layers of each piece of the model: E embedding, t layer, m prediction, L loss, | next piece, *N "
                   "repeats")
          .cut("pipeline_layout", "Pieces of the model as Megatron writes them; empty: even, leftovers inside.")
          .needs(stages)
          .from({"pipeline layout", "--pipeline-layout TEXT",
                 "layers, embedding and loss of each piece of the model, as --pipeline-model-parallel-layout has them",
                 "Megatron Core, pipeline_parallel_layer_layout"}),
      toggle("embedding-slot", "the embedding takes the place of a layer on the first stage",
             SB_FIELD(cut.embedding_slot))
          .never_with(beside_layout)
          .cut("embedding_slot", "The embedding takes the place of a layer.")
          .needs(stages)
          .from({"embedding as a layer", "--embedding-slot",
                 "the first stage has a layer less (Megatron: --account-for-embedding-in-pipeline-split)",
                 "Llama Team 2024, The Llama 3 Herd of Models, section 3.3.2"}),
      toggle("head-slot", "the head takes the place of a layer on the last stage", SB_FIELD(cut.head_slot))
          .never_with(beside_layout)
          .cut("head_slot", "The head takes the place of a layer.")
          .needs(stages)
          .from({"head as a layer", "--head-slot",
                 "the last stage has a layer less (Megatron: --account-for-loss-in-pipeline-split)",
                 "Llama Team 2024, The Llama 3 Herd of Models, section 3.3.2"}),
      integer("first-stage-layers", "layers of the first stage; as many as the others when not given", 1, degree_limit,
              SB_FIELD(cut.first_stage_layers))
          .never_with(beside_layout)
          .cut("first_stage_layers", "Layers of the first stage; empty: as many as the others.")
          .empty_at_zero()
          .needs(stages)
          .from({"layers of the first stage", "--first-stage-layers N",
                 "the first stage has N layers (Megatron: --decoder-first-pipeline-num-layers)",
                 "Megatron Core, TransformerConfig"}),
      integer("last-stage-layers", "layers of the last stage; as many as the others when not given", 1, degree_limit,
              SB_FIELD(cut.last_stage_layers))
          .never_with(beside_layout)
          .cut("last_stage_layers", "Layers of the last stage; empty: as many as the others.")
          .empty_at_zero()
          .needs(stages)
          .from({"layers of the last stage", "--last-stage-layers N",
                 "the last stage has N layers (Megatron: --decoder-last-pipeline-num-layers)",
                 "Megatron Core, TransformerConfig"}),
  };
}

Knobs device_knobs() {
  constexpr std::int64_t most_channels = 64;  // NCCL's MAXCHANNELS
  return {
      choice("device", "where kernels run", SB_FIELD(device)).of_runs(),
      word("attention", "attention on a GPU; auto is query-blocks", {"query-blocks", "cudnn"}, SB_FIELD(attention))
          .cut("attention", "GPU kernel of attention that was asked for.")
          .of_gpus(),
      word("nccl-algo", "NCCL's algorithm (NCCL_ALGO)",
           {"Ring", "Tree", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree"}, SB_FIELD(nccl_algo))
          .cut("nccl_algo", "NCCL algorithm that was asked for; auto: its own choice.")
          .needs(peers)
          .of_gpu_jobs(),
      word("nccl-proto", "NCCL's protocol (NCCL_PROTO)", {"LL", "LL128", "Simple"}, SB_FIELD(nccl_proto))
          .cut("nccl_proto", "NCCL protocol that was asked for; auto: its own choice.")
          .needs(peers)
          .of_gpu_jobs(),
      integer("nccl-channels", "NCCL's channels, exactly so many; 0 is its own choice", 0, most_channels,
              SB_FIELD(nccl_channels))
          .cut("nccl_channels", "NCCL channels that were asked for; empty: its own choice.")
          .empty_at_zero()
          .needs(peers)
          .of_gpu_jobs(),
      toggle("share-gpu", "ranks may share a GPU: for the right numbers only, its times mean nothing",
             SB_FIELD(share_gpu))
          .cut("share_gpu", "Ranks may share a GPU: times mean nothing.")
          .needs(peers)
          .of_gpu_jobs(),
      toggle("cuda-graph", "start each timed step as one CUDA graph", SB_FIELD(cuda_graph))
          .cut("cuda_graph", "Each timed step started as one CUDA graph.")
          .of_gpu_jobs(),
      integer("ranks", "processes; as many as the cut needs when not given", 1, batch_limit, SB_FIELD(ranks))
          .cut("ranks", "Processes: dp * tp * pp * cp.")
          .shown_as([](Experiment const& e) { return cell_text::text(e.ranks ? e.ranks : e.cut.ranks()); }),
  };
}

Knobs training_knobs() {
  return {
      number("bucket-mb", "gradient bucket of data parallelism, MB", 0.001, number_limit, SB_FIELD(bucket_mb))
          .never_with(without_gradients)
          .cut("bucket_mb", "Gradient bucket of data parallelism.", "MB")
          .needs_even_as_default(copies)
          .from({"gradient buckets", "--bucket-mb MB",
                 "bytes of gradients that one all-reduce takes: small ones overlap, large ones are efficient",
                 "Li et al. 2020, PyTorch Distributed"}),
      number("router-skew", "rows of the busiest expert over the mean, 0 forces balance", 0, number_limit,
             SB_FIELD(router_skew))
          .what("router_skew", "Rows of the busiest expert over the mean; 0: forced balance; empty without experts.")
          .shown_if(has_experts)
          .from({"router skew", "--router-skew F", "rows of the busiest expert over the mean, 0 for balance",
                 "Fedus et al. 2021, Switch Transformers"}),
      choice("routing", "who chooses experts: prescribed loads, or the router's scores", SB_FIELD(routing))
          .what("routing", "Who chooses experts: prescribed loads, or the router (learned); empty without experts.")
          .shown_if(has_experts)
          .from({"routing", "--routing prescribed|learned",
                 "experts chosen by prescribed loads, or by the router's own scores",
                 "Shazeer et al. 2017, Outrageously Large Neural Networks"}),
      number("capacity", "expert capacity factor, 0 drops no token", 0, number_limit, SB_FIELD(capacity))
          .what("capacity", "Expert capacity factor; 0: no token is dropped; empty without experts.")
          .shown_if(has_experts)
          .from({"expert capacity", "--capacity F",
                 "tokens beyond F times the fair share of an expert are dropped; 0 drops none",
                 "Fedus et al. 2021, Switch Transformers"}),
      number("dropout", "share of the embedding's and the branches' outputs that is dropped", 0, 0.99,
             SB_FIELD(dropout))
          .cut("dropout", "Share of the embedding's and the branches' outputs that is dropped.")
          .from({"dropout", "--dropout P",
                 "a share of the embedding's and the branches' outputs is dropped, the same elements on every cut",
                 "Srivastava et al. 2014, Dropout"}),
      number("clip-grad", "largest global norm of the gradients; 0 does not clip", 0, number_limit, SB_FIELD(clip_grad))
          .cut("clip_grad", "Largest global norm of the gradients; 0: not clipped.")
          .from({"gradient clipping", "--clip-grad X",
                 "gradients are scaled so that their norm over the whole model is at most X",
                 "Pascanu et al. 2013, On the difficulty of training recurrent neural networks"}),
      integer("mtp", "multi-token-prediction layers in the step, of those the model has", 0, 64, SB_FIELD(mtp))
          .cut("mtp", "Multi-token-prediction layers in the step.")
          .from({"multi-token prediction", "--mtp N",
                 "N layers more predict tokens further ahead; embedding and head are shared, their losses weighted",
                 "DeepSeek-AI 2024, DeepSeek-V3 Technical Report"}),
      integer("loss-chunks", "pieces of a microbatch's tokens whose logits there are at a time", 1, 1024,
              SB_FIELD(loss_chunks))
          .never_with(without_gradients)
          .cut("loss_chunks", "Pieces of the tokens whose logits there are at a time.")
          .from({"chunked loss", "--loss-chunks N",
                 "head and loss take the tokens in N pieces, whose logits backward computes again",
                 "Hsu et al. 2024, Liger Kernel (fused linear cross entropy)"}),
      number("mtp-weight", "weight of the prediction layers' mean loss", 0, number_limit, SB_FIELD(mtp_weight))
          .never_with([](Experiment const& e) {
            return e.mtp > 0 ? "" : "mtp 0, which has no such loss; legal with mtp 1 and more";
          })
          .what("mtp_weight", "Weight of the prediction layers' mean loss; empty without them.")
          .shown_if([](Experiment const& e) { return e.mtp > 0; }),
  };
}

Knobs measuring_knobs() {
  return {
      toggle("check", "compare with the unsharded step", SB_FIELD(check)).of_runs().of_ranks_together(),
      toggle("verify-collectives", "check kind, size, group and order of collectives across ranks",
             SB_FIELD(verify_collectives))
          .cut("verify_collectives", "Ranks compared their collectives, which takes time.")
          .needs(peers)
          .of_runs()
          .of_ranks_together(),
      integer("warmup", "iterations before timing", 0, degree_limit, SB_FIELD(warmup)).of_runs(),
      integer("max-iterations", "cap of the timed iterations", 1, degree_limit, SB_FIELD(max_iterations)).of_runs(),
      number("max-seconds", "cap of the timed iterations, seconds", 0.001, number_limit, SB_FIELD(max_seconds))
          .of_runs(),
      number("target-ci", "stop when the 95% interval of the median is this narrow, percent", 0.001, 100,
             SB_FIELD(target_ci_pct))
          .of_runs(),
      integer("seed", "of weights and data", 0, std::numeric_limits<std::int64_t>::max(), SB_FIELD(seed))
          .what("seed", "Seed of weights and data.")
          .of_runs(),
      path("weights", "F.safetensors or an index F.safetensors.index.json",
           "weights under Hugging Face's names; drawn by the seed when not given", SB_FIELD(weights))
          .what("weights", "Path of the weights that the step starts from; empty: drawn by the seed.")
          .of_runs(),
      path("token-ids", "F.json|F.npy|F.txt",
           "token ids, a row a sample: seq + 1 of each in training; drawn by the seed when not given",
           SB_FIELD(token_ids))
          .never_with([](Experiment const& e) {
            return e.model.takes_images() ? std::string("a model of images; legal with one of text") : std::string();
          })
          .what("token_ids", "Path of the token ids; empty: drawn by the seed.")
          .of_runs(),
  };
}

#undef SB_FIELD

}  // namespace

std::span<Knob const> knobs() {
  static Knobs const table = [] {
    Knobs all;
    for (auto const part : {model_knobs, size_knobs, degree_knobs, state_knobs, tensor_knobs, schedule_knobs,
                            layout_knobs, device_knobs, training_knobs, measuring_knobs})
      std::ranges::move(part(), std::back_inserter(all));
    return all;
  }();
  return table;
}

std::vector<KnobSource> knob_sources() {
  // An axis, then what refines it; a knob that is not named here comes after these.
  constexpr std::array order{
      // copies of the model
      "dp", "bucket-mb", "zero", "zero-keep", "shard-ranks",
      // a layer over ranks
      "tp", "sequence-parallel", "tp-sync-fraction", "tp-overlap",
      // layers over stages
      "pp", "schedule", "pipeline-layout", "embedding-slot", "head-slot", "first-stage-layers", "last-stage-layers",
      // a sequence over ranks
      "cp", "cp-method",
      // experts over ranks
      "ep", "etp", "capacity", "routing", "router-skew",
      // what a step does
      "recompute", "recompute-layers", "recompute-modules", "mtp", "loss-chunks", "phase", "clip-grad", "dropout",
      "precision", "gradient-dtype", "strategy"};
  std::vector<KnobSource> lines;
  auto const add = [&](Knob const& knob) { lines.insert(lines.end(), knob.sources.begin(), knob.sources.end()); };
  for (std::string_view const flag : order) add(find_knob(flag));
  for (Knob const& knob : knobs())
    if (std::ranges::find(order, knob.flag) == order.end()) add(knob);
  return lines;
}

}  // namespace shardbench
