// Columns that came after the others, so that readers by position still find those: the rest of what a sweep can vary.
#include "harness/report/cell_text.hpp"
#include "harness/report/column_groups.hpp"

namespace shardbench {
namespace {

using Row = ReportRow;
using cell_text::text;

constexpr Column<Row> columns[] = {
    {"cut", "zero_keep", "", CellKind::text,
     "What ZeRO 3 leaves whole between microbatches: none, weights, or all (gradients too); empty for other stages.",
     [](Row const& r) {
       ParallelConfig const& cut = r.experiment.parallel;
       return cut.zero_stage == 3 ? text(to_string(cut.zero_keep)) : std::string();
     }},
    {"cut", "dropout", "", CellKind::number, "Share of the embedding's and the branches' outputs that is dropped.",
     [](Row const& r) { return text(r.experiment.dropout); }},
    {"cut", "clip_grad", "", CellKind::number, "Largest global norm of the gradients; 0: not clipped.",
     [](Row const& r) { return text(r.experiment.clip_grad); }},
    {"cut", "mtp", "", CellKind::number, "Multi-token-prediction layers in the step.",
     [](Row const& r) { return text(r.experiment.mtp); }},
};

}  // namespace

std::span<Column<ReportRow> const> later_columns() { return columns; }

}  // namespace shardbench
