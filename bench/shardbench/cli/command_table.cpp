#include "bench/shardbench/cli/command_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/knob.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::span<OptionInfo const> option_table() {
  static std::vector<OptionInfo> const table{
      {"out", "FILE.csv", "append rows to this file, and rows of operations to FILE_ops.csv", false},
      {"json", "", "print rows as JSON on standard output", true},
      {"trace", "FILE.json", "write a Chrome trace of the last instrumented step", false},
      {"report", "FILE.html",
       "write a page to look at: the answer, where the time goes, timeline, memory, all rows; one file, no network",
       false},
      {"facts", "FILE.json", "write what that page shows beyond the row: timeline, memory by kind, device", false},
      {"dump", "DIR",
       "write the first step's weights, gradients, updated weights and logits into DIR, under Hugging Face's names",
       false},
      {"mpirun-arg", "TEXT", "one more argument for mpirun; may be repeated", false},
      {"spec", "FILE.yaml", "a sweep from a file: flags as keys, values or lists; flags on the command line override",
       false},
      {"resume", "", "leave out the points whose command already has a row in --out", true},
      {"timeout", "seconds", "end a configuration that takes longer (default 300)", false},
      {"timeout", "seconds", "end the run when it takes longer (default: no limit)", false, false, "run-timeout"},
      {"insecure-rendezvous", "",
       "without MPI: ranks of other machines may come without SHARDBENCH_SECRET; anybody on the network can join",
       true},
      {"gpus", "N|FROM..TO", "devices to plan for; a range is doubled from FROM to TO, with gpus searched", false},
      {"fix", "AXIS=VALUE[|VALUE],...", "plan only with these values of an axis", false},
      {"exclude", "AXIS=VALUE[|VALUE],...", "plan without these values of an axis", false},
      {"top", "integer >= 1", "configurations in the answer (default 5)", false},
      {"max-memory", "number[%]", "share of the device's memory that may be used (default 100)", false},
      {"tokens", "number[K|M|B|T]", "tokens of the whole training run: days, device-hours, cost, goodput", false},
      {"deadline", "number[d|w|h]", "days (or weeks, hours) by which the run of --tokens shall be over", false},
      {"objective", "step-time|tokens-per-gpu-hour|cost|memory|gpus|latency",
       "what to make small (default step-time); gpus: the fewest devices that fit and meet --deadline; latency: of "
       "serving",
       false},
      {"ttft", "number[ms|s]",
       "serving: a prompt of --seq tokens takes no longer (plans prompts and tokens, not training)", false},
      {"tpot", "number[ms|s]", "serving: a token of each sequence after --context takes no longer", false},
      {"price", "US dollars", "of a device-hour, where the system's is missing or another", false},
      {"mtbf-hours", "device-hours", "between failures that stop the job, where the system's is missing or another",
       false},
      {"stragglers", "percent", "steps are that much longer than planned (slow devices, jitter; default 0)", false},
      {"what-if", "", "what other hardware and each knob of the best cut would bring", true},
      {"pareto", "", "the front of time, memory and cost too, simulated", true},
      {"checkpoint-seconds", "number", "time that a checkpoint stops training (default 10)", false},
      {"restart-seconds", "number", "from a failure to the next step (default 300)", false},
      {"microbatches", "integer >= 1", "microbatches of a step (default 8)", false},
      {"points", "FILE", "the points to run", false},
      {"system", "NAME|FILE.yaml", "the machines: a name from `shardbench systems`, or a profile of your own", false},
      {"stack", "NAME|FILE.yaml",
       "the software: a name from `shardbench systems`, or a profile of your own (default ours)", false},
      {"out", "FILE.yaml", "write the profile here", false, false, "profile-out"},
      {"source", "measured|replayed",
       "replayed: run one rank of each stage here, tell its communication from --system (default measured)", false},
      {"nccl-log", "FILE...", "outputs of nccl-tests: their tables, what is suspicious, and a fit", false, true},
      {"topo", "FILE...", "outputs of `nvidia-smi topo -m`", false, true},
      {"fail-above", "number[%]", "exit with 1 when a configuration of B takes that much longer than in A", false},
      {"layer", "integer >= 0", "the layer to explain (default the middle one)", false},
      {"link", "GB/s", "what a rank's link carries in one direction, to compare busbw with", false},
  };
  return table;
}

namespace {

/// What says which step it is: all but what only an execution knows.
std::vector<std::string_view> step_fields() {
  std::vector<std::string_view> flags;
  for (Knob const& knob : knobs())
    if (!knob.only_runs) flags.push_back(knob.flag);
  return flags;
}

using CommandTable = std::vector<CommandInfo>;

CommandTable asking_commands() {
  return {
      {"models", "the models that ship: sizes and parameters", "shardbench models", models_command},
      {"systems", "the machines and software stacks that ship", "shardbench systems", systems_command},
      {"strategies", "every parallel axis and knob, with its flag and its source", "shardbench strategies",
       strategies_command},
      {"describe",
       "parameters, FLOPs, bytes on each axis and memory of one configuration; no hardware",
       "shardbench describe --model llama3.1-8b --tp 8 --dp 4 --seq 4096 --global-batch 32",
       describe_command,
       step_fields(),
       {"out", "json"}},
      {"explain",
       "a layer of one configuration, operation by operation: how each tensor is cut, which collective follows and why",
       "shardbench explain --model llama3.1-8b --tp 8 --sequence-parallel --seq 8192 --precision bf16 --system "
       "h100-sxm",
       explain_command,
       step_fields(),
       {"layer", "system", "stack", "json"}},
      {"run",
       "one configuration, measured; --ranks starts MPI, under mpirun or srun it joins what is there",
       "shardbench run --model gpt2 --layers 4 --seq 128 --tp 2 --ranks 2 --check --out run.csv",
       run_command,
       {"*"},
       {"out", "json", "report", "trace", "dump", "run-timeout", "mpirun-arg", "insecure-rendezvous", "source",
        "system", "stack"}},
      {"sweep",
       "many configurations: comma lists on any flag, or --spec",
       "shardbench sweep --model gpt2 --layers 4 --seq 128 --global-batch 8 --dp 1,2,4 --tp 1,2,4 --pp 1,2,4 --ranks 4 "
       "--check --out sweep.csv",
       sweep_command,
       {"*"},
       {"out", "json", "report", "spec", "resume", "timeout", "mpirun-arg", "insecure-rendezvous", "source", "system",
        "stack"}},
      {"simulate",
       "the step of one configuration on a system, predicted, and where its time goes",
       "shardbench simulate --model llama3.1-405b --tp 8 --pp 16 --dp 128 --seq 8192 --global-batch 2048 --precision "
       "bf16 --sequence-parallel --zero 1 --recompute full --recompute-layers 2 --system h100-sxm --stack te-2025",
       simulate_command,
       step_fields(),
       {"system", "stack", "out", "json", "report", "facts", "trace"}},
      {"plan",
       "the best configuration of a model on so many devices, and why",
       "shardbench plan --model llama3.1-70b --system h100-sxm --gpus 256 --global-batch 512 --seq 8192 --tokens 15T",
       plan_command,
       {"model", "layers", "seq", "context", "global-batch", "precision", "gradient-dtype", "scope", "bucket-mb"},
       {"system",          "stack",    "gpus",   "objective", "fix",   "exclude",    "top",        "max-memory",
        "tokens",          "deadline", "ttft",   "tpot",      "price", "mtbf-hours", "stragglers", "checkpoint-seconds",
        "restart-seconds", "what-if",  "pareto", "out",       "json",  "report"}},
  };
}

CommandTable other_commands() {
  return {
      {"schedule",
       "the table of a pipeline schedule, its bubble and its activation peak",
       "shardbench schedule --schedule 1f1b --pp 4 --microbatches 8",
       schedule_command,
       {"schedule", "pp", "vpp"},
       {"microbatches"}},
      {"compare",
       "step times of the configurations that two files share",
       "shardbench compare before.csv after.csv",
       compare_command,
       {},
       {"fail-above", "report"},
       {"A.csv", "B.csv"}},
      {"import",
       "rows from what other programs measured: Nsight Systems, PyTorch traces, nccl-tests, logs of Megatron-LM, "
       "torchtitan, nanotron and DeepSpeed",
       "shardbench import train.log --model llama3.1-8b --out measured.csv",
       import_command,
       step_fields(),
       {"out", "json"},
       {"FILE..."}},  // one or more
      {"calibrate",
       "measures this machine (products, kernels, collectives) and writes its profile; or reads nccl-tests logs and "
       "topology matrices",
       "shardbench calibrate --ranks 2 --out this.yaml\n  shardbench calibrate --nccl-log all_reduce.log --link 450",
       calibrate_command,
       {"ranks", "device", "precision"},
       {"profile-out", "nccl-log", "topo", "link", "system", "mpirun-arg", "insecure-rendezvous"}},
      {"doctor", "what this machine has, and what is missing", "shardbench doctor", doctor_command},
      {"worker",
       "runs a list of points for `sweep`",
       "",
       worker_command,
       {},
       {"points", "out", "json", "source", "system", "stack"},
       {},
       true},
  };
}

}  // namespace

std::span<CommandInfo const> command_table() {
  static CommandTable const table = [] {
    CommandTable all = asking_commands();
    std::ranges::move(other_commands(), std::back_inserter(all));
    return all;
  }();
  return table;
}

CommandInfo const& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (CommandInfo const& command : command_table()) {
    if (command.name == name) return command;
    if (!command.hidden) names.emplace_back(command.name);
  }
  std::string const near = nearest_name(name, names);
  throw InputError(fmt::format("unknown command {}{}; commands: {}", in_quotes(name),
                               near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", ")));
}

}  // namespace shardbench
