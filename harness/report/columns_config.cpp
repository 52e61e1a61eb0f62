// The columns that say what was run and where, beside those of the knobs.
#include "harness/config/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::known;
using cell_text::text;
constexpr CellKind word = CellKind::text, number = CellKind::number;

/// A size of the model, empty where it has none.
Column<Row> size(std::string name, std::int64_t ModelConfig::*member, std::string description) {
  return tells(std::move(name), number, std::move(description),
               [member](Row const& r) { return known(r.experiment.model.*member); });
}

std::string padded_vocab_of(Row const& r) {
  Experiment const& e = r.experiment;
  return e.model.vocab > 0 && e.cut.tp > 0 ? text(padded_vocab(e.model.vocab, e.cut.tp, e.vocab_divisible_by))
                                           : std::string();
}

std::string microbatches_of(Row const& r) {
  Experiment const& e = r.experiment;
  return known(e.micro_batch > 0 && e.cut.dp > 0 ? e.microbatches() : 0);
}

}  // namespace

ReportColumns identity_columns() {
  return {
      tells("schema_version", number, "Version of this set of columns.",
            [](Row const&) { return text(report_schema_version); }),
      shows("run_id", &Row::run_id, "Joins a row to its rows in the ops file."),
      tells("source", word, "counted, simulated, planned, replayed, measured or external: where the times come from.",
            [](Row const& r) { return text(to_string(r.source)); }),
      tells("outcome", word, "passed, incorrect, failed, timeout or skipped.",
            [](Row const& r) { return text(to_string(r.outcome)); }),
      shows("reason", &Row::reason, "Why the outcome is not passed, or a remark."),
      shows("command", &Row::command, "The command line that reproduces the row."),
  };
}

ReportColumns model_columns() {
  return {
      size("hidden", &ModelConfig::hidden, "Width of the residual stream."),
      size("ffn_hidden", &ModelConfig::ffn_hidden, "Width inside the (dense) MLP."),
      size("heads", &ModelConfig::heads, "Query heads."),
      size("kv_heads", &ModelConfig::kv_heads, "Key/value heads; each rank holds a copy of some when fewer than tp."),
      size("vocab", &ModelConfig::vocab, "Vocabulary of the model."),
      tells("padded_vocab", CellKind::number, "Vocabulary as allocated: the next multiple of vocab_divisible_by*tp.",
            padded_vocab_of),
      tells("microbatches", CellKind::number, "global_batch / (micro_batch * dp).", microbatches_of),
  };
}

ReportColumns run_columns() {
  return {
      shows("rank_order", &Row::rank_order, "Mesh axes, fastest-varying rank first."),
      shows("attention_kernel", &Row::attention_kernel, "Implementation of attention that ran."),
  };
}

ReportColumns place_columns() {
  return {
      shows("device", &Row::device, "Name of the processor that computed."),
      shows("device_count", &Row::device_count, "Devices used over all ranks."),
      shows("ranks_per_core", &Row::ranks_per_core,
            "Ranks of a machine over the cores they may use; times above 1 are not honest speeds."),
      shows("comm_backend", &Row::comm_backend, "self, mpi, tcp or nccl."),
      shows("comm_options", &Row::comm_options,
            "Settings in force: algorithm, protocol, channels, environment variables."),
      shows("system", &Row::system, "System profile of a prediction."),
      shows("software_stack", &Row::software_stack, "Software profile: which fusions and overlaps are in use."),
      shows("host", &Row::host, "Host name of rank 0."),
      shows("clock_mhz", &Row::clock_mhz,
            "Clock at the time of measuring: of the GPU, or the mean over the CPU's cores.", "MHz"),
      shows("power_w", &Row::power_w, "Power draw of rank 0's GPU right after the timed steps.", "W"),
      shows("throttled", &Row::throttled,
            "The GPU's clock was held down by power or heat right after the timed steps; the reason says by what."),
      shows("versions", &Row::versions, "Compiler; BLAS or CUDA; NCCL; MPI."),
      shows("git_commit", &Row::git_commit, "Commit of the source tree."),
      shows("time_utc", &Row::time_utc, "When the row was made, ISO 8601."),
  };
}

}  // namespace shardbench
