#include "harness/sharding/strategy.hpp"

namespace shardbench {

std::vector<StrategyInfo> const& strategy_catalog() {
  static std::vector<StrategyInfo> const catalog{
      {"data parallel", "--dp N", "copies of the model take parts of the batch; gradients are all-reduced in buckets during backward",
       "Li et al. 2020, PyTorch Distributed"},
      {"gradient buckets", "--bucket-mb MB", "bytes of gradients that one all-reduce takes: small ones overlap, large ones are efficient",
       "Li et al. 2020, PyTorch Distributed"},
      {"ZeRO", "--zero 0|1|2|3", "data-parallel ranks shard optimizer states, then gradients, then weights", "Rajbhandari et al. 2020, ZeRO"},
      {"hybrid sharding", "--shard-ranks N", "a ZeRO shard is spread over N ranks, copies over the rest of dp", "Zhao et al. 2023, PyTorch FSDP"},
      {"tensor parallel", "--tp N", "each weight is cut by columns, then rows; heads and the vocabulary are split",
       "Shoeybi et al. 2019, Megatron-LM"},
      {"sequence parallel", "--sequence-parallel", "norm regions are cut along the sequence over tp: reduce-scatter and all-gather in place of all-reduce",
       "Korthikanti et al. 2022, Reducing Activation Recomputation"},
      {"partial synchronisation", "--tp-sync-fraction F", "only a share of the channels is synchronised over tp; below 1 the model differs",
       "Lamprecht et al. 2025, Tensor-Parallelism with Partially Synchronized Activations"},
      {"tp overlap", "--tp-overlap none|chunked", "GEMM and collective in pieces, so that one hides the other",
       "Wang et al. 2023, Overlap Communication with Dependent Computation"},
      {"pipeline parallel", "--pp N", "layers are spread over stages that pass microbatches on", "Huang et al. 2019, GPipe"},
      {"schedule gpipe", "--schedule gpipe", "all forwards, then all backwards", "Huang et al. 2019, GPipe"},
      {"schedule 1f1b", "--schedule 1f1b", "one forward, one backward: the bubble of GPipe, activations of at most pp microbatches",
       "Narayanan et al. 2019, PipeDream; 2021, Memory-Efficient Pipeline-Parallel DNN Training"},
      {"schedule interleaved", "--vpp N", "N model chunks a stage: the bubble shrinks by N, messages grow by N",
       "Narayanan et al. 2021, Efficient Large-Scale Training on GPU Clusters"},
      {"schedule zb-h1", "--schedule zb-h1", "weight gradients fill the bubble at the memory of 1F1B", "Qi et al. 2024, Zero Bubble Pipeline Parallelism"},
      {"schedule zb-v", "--schedule zb-v", "two chunks a stage in a V, weight gradients fill the bubble",
       "Qi et al. 2024, Pipeline Parallelism with Controllable Memory"},
      {"schedule dualpipe", "--schedule dualpipe", "microbatches enter from both ends, forwards overlap backwards; weights twice",
       "DeepSeek-AI 2024, DeepSeek-V3 Technical Report"},
      {"context parallel", "--cp N", "the sequence is cut over ranks, in zigzag when attention is causal", "Liu et al. 2023, Ring Attention"},
      {"context method ring", "--cp-method ring", "keys and values go round while attention computes", "Liu et al. 2023, Ring Attention"},
      {"context method all_gather", "--cp-method all_gather", "keys and values are gathered first", "Llama Team 2024, The Llama 3 Herd of Models"},
      {"context method ulysses", "--cp-method ulysses", "all-to-all turns the cut of the sequence into one of the heads",
       "Jacobs et al. 2023, DeepSpeed Ulysses"},
      {"expert parallel", "--ep N", "experts are spread over ranks, tokens travel to them by all-to-all", "Lepikhin et al. 2020, GShard"},
      {"expert tensor parallel", "--etp N", "each expert is itself cut over N ranks", "Liu et al. 2025, MoE Parallel Folding"},
      {"expert capacity", "--capacity F", "tokens beyond F times the fair share of an expert are dropped; 0 drops none",
       "Fedus et al. 2021, Switch Transformers"},
      {"router skew", "--router-skew F", "imbalance of the routing, 0 for balance", "Fedus et al. 2021, Switch Transformers"},
      {"recompute", "--recompute none|selective|full", "activations are computed again in backward: attention only, or whole layers",
       "Chen et al. 2016, Sublinear Memory Cost; Korthikanti et al. 2022"},
      {"recompute some layers", "--recompute-layers N", "only N layers of a stage recompute", "Korthikanti et al. 2022, Reducing Activation Recomputation"},
      {"precision", "--precision f32|bf16|fp8", "storage of weights and activations; products accumulate in fp32, masters are fp32",
       "Micikevicius et al. 2018, Mixed Precision Training"},
      {"gradient dtype", "--gradient-dtype f32|bf16", "in which gradients are kept and reduced", "Micikevicius et al. 2018, Mixed Precision Training"},
      {"strategy file", "--strategy FILE.yaml", "weight placements of your own; the collectives are derived from them",
       "Xu et al. 2021, GSPMD; PyTorch DTensor"},
  };
  return catalog;
}

}  // namespace shardbench
