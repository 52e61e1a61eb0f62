#include <algorithm>

#include "harness/schedule/schedule_rules.hpp"
#include "harness/sharding/strategy.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

/// Puts a row for each schedule behind that of pipelines.
std::vector<StrategyInfo> with_schedules(std::vector<StrategyInfo> rows) {
  std::vector<StrategyInfo> schedules;
  for (ScheduleKind const kind : enum_values<ScheduleKind>()) {
    ScheduleRules const& rules = rules_of(kind);
    std::string const name(rules.name);
    schedules.push_back({"schedule " + name, rules.takes_vpp() ? "--vpp N" : "--schedule " + name, rules.summary,
                         rules.source, "runs"});
  }
  auto const pipelines = std::ranges::find(rows, "--pp N", &StrategyInfo::flag);
  rows.insert(pipelines + 1, schedules.begin(), schedules.end());
  return rows;
}

}  // namespace

std::vector<StrategyInfo> const& strategy_catalog() {
  static std::vector<StrategyInfo> const catalog = with_schedules({
      {"data parallel", "--dp N",
       "copies of the model take parts of the batch; gradients are all-reduced in buckets during backward",
       "Li et al. 2020, PyTorch Distributed", "runs"},
      {"gradient buckets", "--bucket-mb MB",
       "bytes of gradients that one all-reduce takes: small ones overlap, large ones are efficient",
       "Li et al. 2020, PyTorch Distributed", "runs"},
      {"ZeRO", "--zero 0|1|2|3", "data and context ranks shard optimizer states, then gradients, then weights",
       "Rajbhandari et al. 2020, ZeRO", "runs"},
      {"kept shards", "--zero-keep none|weights|all",
       "weights are gathered once a step and not for each microbatch; with all, gradients are reduced once too",
       "Zhao et al. 2023, PyTorch FSDP (no resharding, no_sync)", "runs"},
      {"hybrid sharding", "--shard-ranks N", "a ZeRO shard is spread over N ranks, copies over the rest of dp",
       "Zhao et al. 2023, PyTorch FSDP", "runs"},
      {"tensor parallel", "--tp N", "each weight is cut by columns, then rows; heads and the vocabulary are split",
       "Shoeybi et al. 2019, Megatron-LM", "runs"},
      {"sequence parallel", "--sequence-parallel",
       "norm regions are cut along the sequence over tp: reduce-scatter and all-gather in place of all-reduce",
       "Korthikanti et al. 2022, Reducing Activation Recomputation", "runs"},
      {"partial synchronisation", "--tp-sync-fraction F",
       "only a share of the channels is synchronised over tp; below 1 the model differs",
       "Lamprecht et al. 2025, Tensor-Parallelism with Partially Synchronized Activations", "runs"},
      {"tp overlap", "--tp-overlap none|chunked", "GEMM and collective in pieces, so that one hides the other",
       "Wang et al. 2023, Overlap Communication with Dependent Computation", "runs"},
      {"pipeline parallel", "--pp N", "layers are spread over stages that pass microbatches on",
       "Huang et al. 2019, GPipe", "runs"},
      {"context parallel", "--cp N", "the sequence is cut over ranks, in zigzag when attention is causal",
       "Liu et al. 2023, Ring Attention", "runs"},
      {"context method ring", "--cp-method ring", "keys and values go round while attention computes",
       "Liu et al. 2023, Ring Attention", "runs"},
      {"context method all-gather", "--cp-method all-gather", "keys and values are gathered first",
       "Llama Team 2024, The Llama 3 Herd of Models", "runs"},
      {"context method ulysses", "--cp-method ulysses",
       "all-to-all turns the cut of the sequence into one of the heads", "Jacobs et al. 2023, DeepSpeed Ulysses",
       "runs"},
      {"expert parallel", "--ep N", "experts are spread over ranks, tokens travel to them by all-to-all",
       "Lepikhin et al. 2020, GShard", "runs"},
      {"expert tensor parallel", "--etp N", "each expert is itself cut over N ranks",
       "Liu et al. 2025, MoE Parallel Folding", "runs"},
      {"expert capacity", "--capacity F", "tokens beyond F times the fair share of an expert are dropped; 0 drops none",
       "Fedus et al. 2021, Switch Transformers", "runs"},
      {"routing", "--routing prescribed|learned", "experts chosen by prescribed loads, or by the router's own scores",
       "Shazeer et al. 2017, Outrageously Large Neural Networks", "runs"},
      {"router skew", "--router-skew F", "rows of the busiest expert over the mean, 0 for balance",
       "Fedus et al. 2021, Switch Transformers", "runs"},
      {"recompute", "--recompute none|selective|full",
       "activations are computed again in backward: attention only, or whole layers",
       "Chen et al. 2016, Sublinear Memory Cost; Korthikanti et al. 2022", "runs"},
      {"recompute some layers", "--recompute-layers N", "only N layers of a stage recompute",
       "Korthikanti et al. 2022, Reducing Activation Recomputation", "runs"},
      {"multi-token prediction", "--mtp N",
       "N layers more predict tokens further ahead; embedding and head are shared, their losses weighted",
       "DeepSeek-AI 2024, DeepSeek-V3 Technical Report", "runs"},
      {"prefill", "--phase prefill",
       "the prompt in one pass: fills the KV cache (with --cp of its own tokens), chooses the first token",
       "Pope et al. 2022, Efficiently Scaling Transformer Inference", "runs"},
      {"decode", "--phase decode --context N", "one token after N cached ones; the KV cache is cut like the heads",
       "Pope et al. 2022, Efficiently Scaling Transformer Inference", "runs"},
      {"gradient clipping", "--clip-grad X",
       "gradients are scaled so that their norm over the whole model is at most X",
       "Pascanu et al. 2013, On the difficulty of training recurrent neural networks", "runs"},
      {"dropout", "--dropout P",
       "a share of the embedding's and the branches' outputs is dropped, the same elements on every cut",
       "Srivastava et al. 2014, Dropout", "runs"},
      {"precision", "--precision fp32|bf16",
       "storage of weights and activations; products accumulate in fp32, masters are fp32",
       "Micikevicius et al. 2018, Mixed Precision Training", "runs"},
      {"gradient dtype", "--gradient-dtype fp32|bf16",
       "in which gradients are kept and reduced; bf16 with bf16 weights halves both",
       "Micikevicius et al. 2018, Mixed Precision Training", "runs"},
      {"strategy file", "--strategy FILE.yaml", "weight placements of your own; the collectives are derived from them",
       "Xu et al. 2021, GSPMD; PyTorch DTensor", "runs"},
  });
  return catalog;
}

}  // namespace shardbench
