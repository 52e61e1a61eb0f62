#include "bench/shardbench/plan_text.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/shardbench/text.hpp"

namespace shardbench {
namespace {

constexpr double agreement = 0.02;  // closed forms and simulation within this, or it is said

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// The parts of a simulated step, in the order people look for them.
std::vector<std::pair<std::string, double>> parts_of(PlannedPoint const& p) {
  Breakdown const& b = p.prediction.breakdown;
  std::vector<std::pair<std::string, double>> parts;
  parts.emplace_back("compute", b.compute_ms - p.prediction.optimizer_ms);
  parts.emplace_back("optimizer", p.prediction.optimizer_ms);
  for (Lane const lane : {Lane::tp, Lane::cp, Lane::ep, Lane::dp, Lane::pp}) {
    double const ms = b.exposed_axis_ms[static_cast<std::size_t>(lane)];
    if (ms > 0) parts.emplace_back(fmt::format("{} communication waited for", to_string(lane)), ms);
  }
  parts.emplace_back("pipeline bubble", b.bubble_ms);
  parts.emplace_back("other idle time", b.idle_ms - b.bubble_ms);
  return parts;
}

void print_space(PlanRequest const& r, PlanResult const& result) {
  fmt::print("space\n{}", axes_text(r.axes));
  fmt::print("  {} legal points, {} costed, {} of them too big, {} without a program; {} points that a rule forbids\n\n",
             grouped(static_cast<double>(result.space.legal)), grouped(static_cast<double>(result.costed)),
             grouped(static_cast<double>(result.too_big)), grouped(static_cast<double>(result.no_program)),
             grouped(static_cast<double>(result.space.illegal)));
}

void print_table(PlanResult const& result) {
  std::vector<std::vector<std::string>> lines{
      {"cut", "step ms", "tokens/s/device", "memory", "bubble %", "exposed comm %", "closed form"}};
  for (PlannedPoint const& p : result.best) {
    Experiment const& e = p.experiment;
    Breakdown const& b = p.prediction.breakdown;
    double const tokens = static_cast<double>(e.global_batch * e.seq) / static_cast<double>(e.ranks);
    lines.push_back({cut_text(e), fmt::format("{:.1f}", p.step_ms), fmt::format("{:.0f}", 1e3 * tokens / p.step_ms),
                     bytes_text(p.memory.needed_bytes), fmt::format("{:.1f}", percent(b.bubble_ms, p.step_ms)),
                     fmt::format("{:.1f}", percent(b.exposed_comm_ms, p.step_ms)),
                     fmt::format("{:+.1f}%", 100 * p.screening_error())});
  }
  for (std::string const& line : table_lines(lines)) fmt::print("  {}\n", line);
}

/// The part in which the runner-up loses most.
void print_runner_up(PlannedPoint const& best, PlannedPoint const& next) {
  auto const mine = parts_of(best), theirs = parts_of(next);
  auto const of = [](std::vector<std::pair<std::string, double>> const& parts, std::string const& name) {
    for (auto const& [part, ms] : parts)
      if (part == name) return ms;
    return 0.0;
  };
  std::string where;
  double most = 0;
  for (auto const& [name, ms] : theirs)
    if (ms - of(mine, name) > most) most = ms - of(mine, name), where = name;
  fmt::print("next      {}: {:.1f} ms slower{}\n", cut_text(next.experiment), next.step_ms - best.step_ms,
             where.empty() ? "" : fmt::format(", {:.1f} ms more {}", most, where));
}

void print_best(PlanResult const& result, std::string const& system, std::string const& stack) {
  PlannedPoint const& best = result.best.front();
  fmt::print("\nbest      {}, micro-batch {}, {} microbatches\n", cut_text(best.experiment), best.experiment.micro_batch,
             best.experiment.microbatches());
  for (auto const& [name, ms] : parts_of(best))
    fmt::print("  {:<40}{:>12.2f} ms {:>6.1f}%\n", name, ms, percent(ms, best.step_ms));
  if (result.best.size() > 1) print_runner_up(best, result.best[1]);
  if (std::abs(best.screening_error()) > agreement)
    fmt::print("note      the closed form is {:+.1f}% from the simulation here; the order is the simulation's, among the "
               "{} fastest by the closed form\n",
               100 * best.screening_error(), result.best.size());
  std::string const flags = command_flags(best.experiment);
  fmt::print("simulate  shardbench simulate {} --system {} --stack {}\n", flags, system, stack);
  fmt::print("run       shardbench run {} --device cuda\n", flags);
  fmt::print("megatron  {}\n", megatron_flags(best.experiment));
  fmt::print("titan     {}\n", torchtitan_flags(best.experiment));
}

/// What one layer needs alone, and how far the smallest cut is from fitting.
void print_nothing_fits(PlanRequest const& r, PlanResult const& result, CostModel const& model,
                        PlanOptions const& options) {
  double const allowed = options.memory_share * model.system().device.memory_gb * 1e9;
  fmt::print("nothing fits: of {} costed points the smallest needs {} of {} a device", grouped(static_cast<double>(result.costed)),
             bytes_text(result.least_memory_bytes), bytes_text(allowed));
  if (result.costed > 0) {
    Candidate const& c = result.smallest;
    fmt::print(" (tp {}, pp {}, dp {}, cp {}, ep {}, zero {}, recompute {})", c.tp, c.pp, c.dp, c.cp, c.ep,
               static_cast<int>(c.zero_stage), to_string(c.recompute));
    double const times = std::exp2(std::ceil(std::log2(result.least_memory_bytes / allowed)));
    fmt::print("\nchange    at least {} devices ({} times as many), or a device with {} of memory",
               grouped(static_cast<double>(r.devices) * times), times, bytes_text(result.least_memory_bytes));
  }
  fmt::print("\n");
}

}  // namespace

std::string cut_text(Experiment const& e) {
  ParallelConfig const& p = e.parallel;
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
  for (auto const& [name, value] : {std::pair{"tp", p.tp}, {"pp", p.pp}, {"dp", p.dp}, {"cp", p.cp}, {"ep", p.ep},
                                    {"etp", p.etp}, {"vpp", p.vpp}})
    if (value > 1) add(fmt::format("{} {}", name, value));
  if (p.pp > 1 && p.schedule != ScheduleKind::one_f_one_b && p.vpp == 1) add(std::string(to_string(p.schedule)));
  if (p.zero_stage > 0) add(fmt::format("zero {}", p.zero_stage));
  if (p.sequence_parallel) add("sp");
  if (p.tp_overlap != "none") add("tp overlap");
  if (p.recompute != Recompute::none) add(fmt::format("recompute {}", to_string(p.recompute)));
  add(fmt::format("mb {}", e.micro_batch));
  return text;
}

std::string megatron_flags(Experiment const& e) {
  ParallelConfig const& p = e.parallel;
  std::string text = fmt::format("--tensor-model-parallel-size {} --pipeline-model-parallel-size {}", p.tp, p.pp);
  if (p.vpp > 1) text += fmt::format(" --num-virtual-stages-per-pipeline-rank {}", p.vpp);
  if (p.cp > 1) text += fmt::format(" --context-parallel-size {}", p.cp);
  if (p.ep > 1) text += fmt::format(" --expert-model-parallel-size {} --expert-tensor-parallel-size {}", p.ep, p.etp);
  if (p.sequence_parallel) text += " --sequence-parallel";
  if (p.tp_overlap != "none") text += " --tp-comm-overlap";
  if (p.zero_stage == 1) text += " --use-distributed-optimizer";
  if (p.zero_stage > 1)
    text += fmt::format(" --use-megatron-fsdp --data-parallel-sharding-strategy {}",
                        p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
  if (p.recompute == Recompute::full) text += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (p.recompute == Recompute::selective) text += " --recompute-granularity selective";
  if (splits_backward(p.schedule)) text += fmt::format(" [no flag for schedule {}]", to_string(p.schedule));
  return text + fmt::format(" --micro-batch-size {} --global-batch-size {} --seq-length {}{}", e.micro_batch,
                            e.global_batch, e.seq, e.precision == Dtype::bf16 ? " --bf16" : "");
}

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

}  // namespace

std::string torchtitan_flags(Experiment const& e) {
  ParallelConfig const& p = e.parallel;
  std::string text = fmt::format("--parallelism.tensor_parallel_degree {} --parallelism.pipeline_parallel_degree {}", p.tp, p.pp);
  text += p.zero_stage == 3 ? fmt::format(" --parallelism.data_parallel_shard_degree {}", p.dp)
                            : fmt::format(" --parallelism.data_parallel_replicate_degree {}", p.dp);
  if (p.cp > 1) text += fmt::format(" --parallelism.context_parallel_degree {}", p.cp);
  if (p.ep > 1) text += fmt::format(" --parallelism.expert_parallel_degree {}", p.ep);
  if (p.pp > 1) text += " " + torchtitan_schedule(p.schedule);
  return text + fmt::format(" --training.local_batch_size {} --training.global_batch_size {} --training.seq_len {}",
                            e.micro_batch, e.global_batch, e.seq);
}

void print_plan(PlanRequest const& request, PlanResult const& result, CostModel const& model,
                PlanOptions const& options, std::string const& system, std::string const& stack) {
  Experiment const& e = request.base;
  fmt::print("{}: {} layers, seq {}, global batch {}, {} on {} x {}, stack {}; planned\n", e.model_name, e.model.layers,
             e.seq, e.global_batch, to_string(e.precision), request.devices, model.system().device.name,
             model.stack().name);
  print_space(request, result);
  if (result.best.empty()) {
    print_nothing_fits(request, result, model, options);
    return;
  }
  print_table(result);
  print_best(result, system, stack);
}

}  // namespace shardbench
