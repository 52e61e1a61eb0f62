#include "bench/shardbench/plan_flags.hpp"

#include <fmt/format.h>

#include "harness/planner/plan_space.hpp"

namespace shardbench {
namespace {

std::string torchtitan_schedule(ScheduleKind kind) {
  std::string_view name;
  if (kind == ScheduleKind::gpipe) name = "GPipe";
  if (kind == ScheduleKind::one_f_one_b) name = "1F1B";
  if (kind == ScheduleKind::interleaved) name = "Interleaved1F1B";
  if (kind == ScheduleKind::zb_v) name = "ZBVZeroBubble";
  return name.empty() ? fmt::format("[no option for schedule {}]", to_string(kind))
                      : fmt::format("--parallelism.pipeline_parallel_schedule {}", name);
}

std::string torchtitan_data_parallel(ParallelConfig const& p) {
  std::string const shard = fmt::format("--parallelism.data_parallel_shard_degree {}", p.dp);
  switch (p.zero_stage) {
    case 3:
      return shard + " --parallelism.fsdp_reshard_after_forward always";
    case 2:
      return shard + " --parallelism.fsdp_reshard_after_forward never";
    case 1:
      return fmt::format("--parallelism.data_parallel_replicate_degree {} [no option for zero 1]", p.dp);
    default:
      return fmt::format("--parallelism.data_parallel_replicate_degree {}", p.dp);
  }
}

}  // namespace

std::string cut_text(Experiment const& e) {
  ParallelConfig const& p = e.parallel;
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
  for (auto const& [name, value] :
       {std::pair{"tp", p.tp}, {"pp", p.pp}, {"dp", p.dp}, {"cp", p.cp}, {"ep", p.ep}, {"etp", p.etp}, {"vpp", p.vpp}})
    if (value > 1) add(fmt::format("{} {}", name, value));
  if (p.pp > 1 && p.schedule != ScheduleKind::one_f_one_b && p.vpp == 1) add(std::string(to_string(p.schedule)));
  if (p.zero_stage > 0) add(fmt::format("zero {}", p.zero_stage));
  if (p.sequence_parallel) add("sp");
  if (p.tp_overlap != "none") add("tp overlap");
  if (p.recompute != Recompute::none) add(fmt::format("recompute {}", to_string(p.recompute)));
  add(fmt::format("mb {}", e.micro_batch));
  return text;
}

std::string megatron_flags(Experiment const& e, SoftwareStack const& stack) {
  if (e.model.yolo) return "[Megatron-LM has no detectors]";
  ParallelConfig const& p = e.parallel;
  std::string text = fmt::format("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", p.tp, p.pp);
  if (p.vpp > 1) text += fmt::format(" --num-virtual-stages-per-pipeline-rank {}", p.vpp);
  if (p.cp > 1) text += fmt::format(" --context-parallel-size {}", p.cp);
  // Its experts are cut like the rest unless told otherwise.
  if (e.model.moe && (p.ep > 1 || p.tp > 1))
    text += fmt::format(" --expert-model-parallel-size {} --expert-tensor-parallel-size {}", p.ep, p.etp);
  if (p.sequence_parallel) text += " --sequence-parallel";
  if (p.tp_overlap != "none")
    text += p.sequence_parallel ? " --tp-comm-overlap" : " [no flag for overlap without sequence parallelism]";
  if (std::int64_t const chunks = p.pp * p.vpp; e.model.layers % chunks != 0)
    text += fmt::format(" [{} layers over {} chunks are uneven: an own pipeline layout]", e.model.layers, chunks);
  if (p.zero_stage == 1) text += " --use-distributed-optimizer";
  if (p.zero_stage > 1)
    text += fmt::format(" --use-megatron-fsdp --data-parallel-sharding-strategy {}",
                        p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
  // From ZeRO 2 on reductions go beside compute whatever the stack, as they do there only when asked to.
  if (p.dp > 1 && (stack.dp_overlap || p.zero_stage > 1)) text += " --overlap-grad-reduce";
  if (p.dp > 1 && (p.zero_stage == 3 || (p.zero_stage > 0 && stack.dp_overlap && stack.gather_with_forward)))
    text += " --overlap-param-gather";
  if (e.gradient_dtype == Dtype::bf16) text += " --grad-reduce-in-bf16";
  if (p.recompute == Recompute::full)
    text += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (p.recompute == Recompute::selective) text += " --recompute-granularity selective";
  if (splits_backward(p.schedule)) text += fmt::format(" [no flag for schedule {}]", to_string(p.schedule));
  return text + fmt::format(" --micro-batch-size {} --global-batch-size {} --seq-length {}{}", e.micro_batch,
                            e.global_batch, e.seq, e.precision == Dtype::bf16 ? " --bf16" : "");
}

std::string torchtitan_flags(Experiment const& e) {
  if (e.model.yolo) return "[torchtitan has no detectors]";
  ParallelConfig const& p = e.parallel;
  std::string text = fmt::format("--parallelism.tensor_parallel_degree {} --parallelism.pipeline_parallel_degree {} {}",
                                 p.tp, p.pp, torchtitan_data_parallel(p));
  if (p.tp > 1 && !p.sequence_parallel) text += " [tensor parallel always with sequence parallel]";
  if (p.tp_overlap != "none") text += " --parallelism.enable_async_tensor_parallel";
  if (p.cp > 1) text += fmt::format(" --parallelism.context_parallel_degree {}", p.cp);
  if (p.ep > 1)
    text += fmt::format(" --parallelism.expert_parallel_degree {} --parallelism.expert_tensor_parallel_degree {}", p.ep,
                        p.etp);
  // Its local batch passes the pipeline at once; without a pipeline it is a microbatch, and gradients accumulate.
  std::int64_t const local = p.pp > 1 ? e.global_batch / p.dp : e.micro_batch;
  if (p.pp > 1)
    text += fmt::format(" {} --parallelism.pipeline_parallel_microbatch_size {}", torchtitan_schedule(p.schedule),
                        e.micro_batch);
  if (std::int64_t const chunks = p.pp * p.vpp; p.vpp > 1)
    text += e.model.layers % chunks == 0
                ? fmt::format(" --parallelism.pipeline_parallel_layers_per_stage {}", e.model.layers / chunks)
                : fmt::format(" [no option for {} layers over {} chunks]", e.model.layers, chunks);
  return text + fmt::format(
                    " --activation_checkpoint.mode {} --training.local_batch_size {} --training.global_batch_size {} "
                    "--training.seq_len {}",
                    to_string(p.recompute), local, e.global_batch, e.seq);
}

}  // namespace shardbench
