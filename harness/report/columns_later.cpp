// Columns that came after the others, so that readers by position still find those: the rest of the cut, what a plan
// adds, and what else changes a step.
#include <fmt/format.h>

#include "harness/report/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::known;
using cell_text::text;

/// A knob of experts; empty where the model has none.
template <class Value>
std::string of_experts(Experiment const& e, Value const& value) {
  return e.model.moe ? text(value) : std::string();
}

std::int64_t image_size_of(Experiment const& e) {
  if (e.model.vision) return e.model.vision->image_size;
  return e.model.yolo ? e.model.yolo->image_size : e.image_size;
}

std::int64_t classes_of(Experiment const& e) {
  if (e.model.vision) return e.model.vision->classes;
  return e.model.yolo ? e.model.yolo->classes : e.classes;
}

constexpr Column<Row> columns[] = {
    {"cut", "zero_keep", "", CellKind::text,
     "What ZeRO leaves whole between microbatches: none, weights, or all (gradients too); empty below ZeRO 2.",
     [](Row const& r) {
       Cut const& cut = r.experiment.cut;
       return cut.zero_stage >= 2 ? text(to_string(cut.zero_keep)) : std::string();
     }},
    {"cut", "dropout", "", CellKind::number, "Share of the embedding's and the branches' outputs that is dropped.",
     [](Row const& r) { return text(r.experiment.dropout); }},
    {"cut", "clip_grad", "", CellKind::number, "Largest global norm of the gradients; 0: not clipped.",
     [](Row const& r) { return text(r.experiment.clip_grad); }},
    {"cut", "mtp", "", CellKind::number, "Multi-token-prediction layers in the step.",
     [](Row const& r) { return text(r.experiment.mtp); }},
    {"plan", "training_days", "days", CellKind::number,
     "Days of the whole training run, failures and stragglers included.",
     [](Row const& r) { return text(r.training_days); }},
    {"plan", "device_hours", "h", CellKind::number, "training_days * 24 * ranks.",
     [](Row const& r) { return text(r.device_hours); }},
    {"plan", "cost_usd", "USD", CellKind::number, "device_hours times the price of a device-hour.",
     [](Row const& r) { return text(r.cost_usd); }},
    {"plan", "goodput_pct", "%", CellKind::number,
     "Share of the run's time that trains: checkpoints, lost work, restarts taken off.",
     [](Row const& r) { return text(r.goodput_pct); }},
    {"plan", "pareto", "", CellKind::text,
     "true: no planned row is as good in time, memory and cost and better in one.",
     [](Row const& r) { return text(r.pareto); }},
    {"plan", "run_command", "", CellKind::text, "The command line that measures what the row foretells.",
     [](Row const& r) { return r.run_command; }},
    {"plan", "megatron_flags", "", CellKind::text, "Flags of Megatron-LM for the same cut; in brackets what differs.",
     [](Row const& r) { return r.megatron_flags; }},
    {"plan", "torchtitan_flags", "", CellKind::text,
     "Options of torchtitan for the same cut; in brackets what differs.",
     [](Row const& r) { return r.torchtitan_flags; }},
    {"what", "image_size", "pixels", CellKind::number, "Pixels a side of the images; empty for text.",
     [](Row const& r) { return known(image_size_of(r.experiment)); }},
    {"what", "classes", "", CellKind::number, "Classes of a vision model's head; empty where there is none.",
     [](Row const& r) { return known(classes_of(r.experiment)); }},
    {"what", "context", "tokens", CellKind::number, "Tokens in the KV cache before the step; empty unless decoding.",
     [](Row const& r) { return known(r.experiment.context); }},
    {"what", "routing", "", CellKind::text,
     "Who chooses experts: prescribed loads, or the router (learned); empty without experts.",
     [](Row const& r) { return of_experts(r.experiment, to_string(r.experiment.routing)); }},
    {"what", "router_skew", "", CellKind::number,
     "Rows of the busiest expert over the mean; 0: forced balance; empty without experts.",
     [](Row const& r) { return of_experts(r.experiment, r.experiment.router_skew); }},
    {"what", "capacity", "", CellKind::number, "Expert capacity factor; 0: no token is dropped; empty without experts.",
     [](Row const& r) { return of_experts(r.experiment, r.experiment.capacity); }},
    {"what", "mtp_weight", "", CellKind::number, "Weight of the prediction layers' mean loss; empty without them.",
     [](Row const& r) { return r.experiment.mtp > 0 ? text(r.experiment.mtp_weight) : std::string(); }},
    {"what", "seed", "", CellKind::number, "Seed of weights and data.",
     [](Row const& r) { return fmt::format("{}", r.experiment.seed); }},
    {"cut", "recompute_layers", "", CellKind::number,
     "Layers of a stage that recompute; empty: all of them (recompute says what, or none).",
     [](Row const& r) { return known(r.experiment.cut.recompute_layers); }},
    {"cut", "tp_overlap_chunks", "", CellKind::number,
     "Pieces of a GEMM and its collective; empty unless tp_overlap is chunked.",
     [](Row const& r) {
       Cut const& cut = r.experiment.cut;
       return cut.tp_overlap == TpOverlap::chunked ? text(cut.tp_overlap_chunks) : std::string();
     }},
    {"cut", "bucket_mb", "MB", CellKind::number, "Gradient bucket of data parallelism.",
     [](Row const& r) { return text(r.experiment.bucket_mb); }},
    {"cut", "attention", "", CellKind::text, "GPU kernel of attention that was asked for.",
     [](Row const& r) { return r.experiment.attention; }},
    {"cut", "nccl_algo", "", CellKind::text, "NCCL algorithm that was asked for; auto: its own choice.",
     [](Row const& r) { return r.experiment.nccl_algo; }},
    {"cut", "nccl_proto", "", CellKind::text, "NCCL protocol that was asked for; auto: its own choice.",
     [](Row const& r) { return r.experiment.nccl_proto; }},
    {"cut", "nccl_channels", "", CellKind::number, "NCCL channels that were asked for; empty: its own choice.",
     [](Row const& r) { return known(r.experiment.nccl_channels); }},
    {"cut", "share_gpu", "", CellKind::flag, "Ranks may share a GPU: times mean nothing.",
     [](Row const& r) { return text(r.experiment.share_gpu); }},
    {"cut", "cuda_graph", "", CellKind::flag, "Each timed step started as one CUDA graph.",
     [](Row const& r) { return text(r.experiment.cuda_graph); }},
    {"cut", "verify_collectives", "", CellKind::flag, "Ranks compared their collectives, which takes time.",
     [](Row const& r) { return text(r.experiment.verify_collectives); }},
};

}  // namespace

std::span<Column<ReportRow> const> later_columns() { return columns; }

}  // namespace shardbench
