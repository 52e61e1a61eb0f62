// The columns that say what was run and where: groups identity, what, cut and where.
#include "harness/report/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::known;
using cell_text::text;
constexpr CellKind word = CellKind::text, number = CellKind::number, flag = CellKind::flag;

std::int64_t microbatches_of(Experiment const& e) { return e.micro_batch > 0 && e.cut.dp > 0 ? e.microbatches() : 0; }

std::string padded_vocab_of(Experiment const& e) {
  bool const readable = e.model.vocab > 0 && e.cut.tp > 0;
  return readable ? text(padded_vocab(e.model.vocab, e.cut.tp)) : std::string();
}

std::int64_t shard_ranks_of(Cut const& cut) {
  if (cut.zero_stage == 0) return 0;
  return cut.shard_ranks != 0 ? cut.shard_ranks : cut.dp;
}

constexpr Column<Row> columns[] = {
    {"identity", "schema_version", "", number, "Version of this set of columns.",
     [](Row const&) { return text(report_schema_version); }},
    {"identity", "run_id", "", word, "Joins a row to its rows in the ops file.", [](Row const& r) { return r.run_id; }},
    {"identity", "source", "", word,
     "counted, simulated, planned, replayed, measured or external: where the times come from.",
     [](Row const& r) { return text(to_string(r.source)); }},
    {"identity", "outcome", "", word, "passed, incorrect, failed, timeout or skipped.",
     [](Row const& r) { return text(to_string(r.outcome)); }},
    {"identity", "reason", "", word, "Why the outcome is not passed, or a remark.",
     [](Row const& r) { return r.reason; }},
    {"identity", "command", "", word, "The command line that reproduces the row.",
     [](Row const& r) { return r.command; }},

    {"what", "model", "", word, "Preset name or path of the model's config.json.",
     [](Row const& r) { return r.experiment.model_name; }},
    {"what", "layers", "", number, "Transformer blocks that ran, after --layers.",
     [](Row const& r) { return known(r.experiment.model.layers); }},
    {"what", "hidden", "", number, "Width of the residual stream.",
     [](Row const& r) { return known(r.experiment.model.hidden); }},
    {"what", "ffn_hidden", "", number, "Width inside the (dense) MLP.",
     [](Row const& r) { return known(r.experiment.model.ffn_hidden); }},
    {"what", "heads", "", number, "Query heads.", [](Row const& r) { return known(r.experiment.model.heads); }},
    {"what", "kv_heads", "", number, "Key/value heads; each rank holds a copy of some when fewer than tp.",
     [](Row const& r) { return known(r.experiment.model.kv_heads); }},
    {"what", "vocab", "", number, "Vocabulary of the model.",
     [](Row const& r) { return known(r.experiment.model.vocab); }},
    {"what", "padded_vocab", "", number, "Vocabulary as allocated: the next multiple of 128*tp.",
     [](Row const& r) { return padded_vocab_of(r.experiment); }},
    {"what", "seq", "tokens", number, "Sequence length.", [](Row const& r) { return known(r.experiment.seq); }},
    {"what", "micro_batch", "samples", number, "Samples that a rank takes at once.",
     [](Row const& r) { return text(r.experiment.micro_batch); }},
    {"what", "global_batch", "samples", number, "Samples of one step over all ranks.",
     [](Row const& r) { return known(r.experiment.global_batch); }},
    {"what", "microbatches", "", number, "global_batch / (micro_batch * dp).",
     [](Row const& r) { return known(microbatches_of(r.experiment)); }},
    {"what", "precision", "", word, "Dtype of weights and activations in compute.",
     [](Row const& r) { return text(to_string(r.experiment.precision)); }},

    {"cut", "ranks", "", number, "Processes: dp * tp * pp * cp.",
     [](Row const& r) { return text(r.experiment.ranks ? r.experiment.ranks : r.experiment.cut.ranks()); }},
    {"cut", "dp", "", number, "Data-parallel degree.", [](Row const& r) { return text(r.experiment.cut.dp); }},
    {"cut", "tp", "", number, "Tensor-parallel degree.", [](Row const& r) { return text(r.experiment.cut.tp); }},
    {"cut", "pp", "", number, "Pipeline stages.", [](Row const& r) { return text(r.experiment.cut.pp); }},
    {"cut", "vpp", "", number, "Model chunks per stage.", [](Row const& r) { return text(r.experiment.cut.vpp); }},
    {"cut", "cp", "", number, "Context-parallel degree.", [](Row const& r) { return text(r.experiment.cut.cp); }},
    {"cut", "cp_method", "", word, "ring, all_gather or ulysses; empty when cp is 1.",
     [](Row const& r) {
       Cut const& cut = r.experiment.cut;
       return cut.cp > 1 ? text(to_string(cut.cp_method)) : std::string();
     }},
    {"cut", "ep", "", number, "Expert-parallel degree.", [](Row const& r) { return text(r.experiment.cut.ep); }},
    {"cut", "etp", "", number, "Tensor-parallel degree of the experts.",
     [](Row const& r) { return text(r.experiment.cut.etp); }},
    {"cut", "zero_stage", "", number,
     "What data-parallel ranks shard: 0 nothing, 1 optimizer, 2 gradients too, 3 weights too.",
     [](Row const& r) { return text(r.experiment.cut.zero_stage); }},
    {"cut", "shard_ranks", "", number,
     "Ranks that a ZeRO shard is spread over (fewer than dp: hybrid sharding); empty for ZeRO 0.",
     [](Row const& r) { return known(shard_ranks_of(r.experiment.cut)); }},
    {"cut", "sequence_parallel", "", flag, "Norm regions are cut along the sequence over tp.",
     [](Row const& r) { return text(r.experiment.cut.sequence_parallel); }},
    {"cut", "tp_sync_fraction", "", number,
     "Share of the channels that tensor parallelism synchronises; below 1 the model differs.",
     [](Row const& r) { return text(r.experiment.cut.tp_sync_fraction); }},
    {"cut", "tp_overlap", "", word, "none, or chunked: GEMM and collective in pieces, pipelined.",
     [](Row const& r) { return text(to_string(r.experiment.cut.tp_overlap)); }},
    {"cut", "schedule", "", word, "Pipeline schedule.",
     [](Row const& r) { return text(to_string(r.experiment.cut.schedule)); }},
    {"cut", "recompute", "", word, "Activations computed again in backward: none, selective or full.",
     [](Row const& r) { return text(to_string(r.experiment.cut.recompute)); }},
    {"cut", "strategy", "", word, "Path of the strategy file; empty for the built-in cut.",
     [](Row const& r) { return r.experiment.cut.strategy; }},
    {"cut", "rank_order", "", word, "Mesh axes, fastest-varying rank first.",
     [](Row const& r) { return r.rank_order; }},
    {"cut", "scope", "", word, "layer: blocks only; model: embeddings, head and loss too.",
     [](Row const& r) { return text(to_string(r.experiment.scope)); }},
    {"cut", "phase", "", word, "train, prefill or decode.",
     [](Row const& r) { return text(to_string(r.experiment.phase)); }},
    {"cut", "gradient_dtype", "", word, "Dtype in which gradients are kept and reduced.",
     [](Row const& r) { return text(to_string(r.experiment.gradient_dtype)); }},
    {"cut", "attention_kernel", "", word, "Implementation of attention that ran.",
     [](Row const& r) { return r.attention_kernel; }},

    {"where", "device", "", word, "Name of the processor that computed.", [](Row const& r) { return r.device; }},
    {"where", "device_count", "", number, "Devices used over all ranks.",
     [](Row const& r) { return text(r.device_count); }},
    {"where", "ranks_per_core", "", number,
     "Ranks of a machine over the cores they may use; times above 1 are not honest speeds.",
     [](Row const& r) { return text(r.ranks_per_core); }},
    {"where", "comm_backend", "", word, "self, mpi, tcp or nccl.", [](Row const& r) { return r.comm_backend; }},
    {"where", "comm_options", "", word, "Settings in force: algorithm, protocol, channels, environment variables.",
     [](Row const& r) { return r.comm_options; }},
    {"where", "system", "", word, "System profile of a prediction.", [](Row const& r) { return r.system; }},
    {"where", "software_stack", "", word, "Software profile: which fusions and overlaps are in use.",
     [](Row const& r) { return r.software_stack; }},
    {"where", "host", "", word, "Host name of rank 0.", [](Row const& r) { return r.host; }},
    {"where", "clock_mhz", "MHz", number,
     "Clock at the time of measuring: of the GPU, or the mean over the CPU's cores.",
     [](Row const& r) { return text(r.clock_mhz); }},
    {"where", "power_w", "W", number, "Power draw of rank 0's GPU right after the timed steps.",
     [](Row const& r) { return text(r.power_w); }},
    {"where", "throttled", "", flag,
     "The GPU's clock was held down by power or heat right after the timed steps; the reason says by what.",
     [](Row const& r) { return text(r.throttled); }},
    {"where", "versions", "", word, "Compiler; BLAS or CUDA; NCCL; MPI.", [](Row const& r) { return r.versions; }},
    {"where", "git_commit", "", word, "Commit of the source tree.", [](Row const& r) { return r.git_commit; }},
    {"where", "time_utc", "", word, "When the row was made, ISO 8601.", [](Row const& r) { return r.time_utc; }},
};

}  // namespace

std::span<Column<ReportRow> const> configuration_columns() { return columns; }

}  // namespace shardbench
