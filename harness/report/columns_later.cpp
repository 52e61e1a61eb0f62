// Columns that came after the others, so that readers by position still find those: the rest of the cut, and what a
// plan adds.
#include "harness/report/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::text;

constexpr Column<Row> columns[] = {
    {"cut", "zero_keep", "", CellKind::text,
     "What ZeRO leaves whole between microbatches: none, weights, or all (gradients too); empty below ZeRO 2.",
     [](Row const& r) {
       ParallelConfig const& cut = r.experiment.parallel;
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
    {"plan", "megatron_flags", "", CellKind::text, "Flags of Megatron-LM that mean the same cut.",
     [](Row const& r) { return r.megatron_flags; }},
    {"plan", "torchtitan_flags", "", CellKind::text, "Options of torchtitan that mean the same cut.",
     [](Row const& r) { return r.torchtitan_flags; }},
};

}  // namespace

std::span<Column<ReportRow> const> later_columns() { return columns; }

}  // namespace shardbench
