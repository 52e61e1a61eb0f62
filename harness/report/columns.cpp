#include "harness/report/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "harness/report/column_groups.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

/// The columns of model and cut, in no order: those that follow from them, and of the knobs.
ReportColumns configuration_columns() {
  ReportColumns columns = in_group("what", model_columns());
  std::ranges::move(in_group("cut", run_columns()), std::back_inserter(columns));
  for (Knob const& knob : knobs()) {
    KnobColumn const& c = knob.column;
    if (c.name.empty()) continue;
    columns.push_back({c.group, c.name, c.unit, knob.kind, c.description,
                       [&c](ReportRow const& row) { return c.cell(row.experiment); }, &knob});
  }
  return columns;
}

template <class Row>
void add_tables(std::string& markdown, std::span<Column<Row> const> columns) {
  std::string group;
  for (auto const& column : columns) {
    if (column.group != group) {
      group = column.group;
      markdown += fmt::format("\n### {}\n\n| column | unit | meaning |\n|---|---|---|\n", group);
    }
    markdown += fmt::format("| `{}` | {} | {} |\n", column.name, column.unit, escaped(column.description));
  }
}

/// Joins the columns of all parts: a column stays where readers of earlier files know it, and new ones come last.
class Table {
 public:
  Table() {
    add(in_group("identity", identity_columns()));
    add({"model", "layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "padded_vocab", "seq", "micro_batch",
         "global_batch", "microbatches", "precision"});
    add({"ranks", "dp", "tp", "pp", "vpp", "cp", "cp_method", "ep", "etp", "zero_stage", "shard_ranks"});
    add({"sequence_parallel", "tp_sync_fraction", "tp_overlap", "schedule", "recompute", "strategy", "rank_order",
         "scope", "phase", "gradient_dtype", "attention_kernel"});
    add(in_group("where", place_columns()));
    add(in_group("time", time_columns()));
    add(in_group("rate", rate_columns()));
    add(in_group("memory", memory_columns()));
    add(in_group("traffic", traffic_columns()));
    add(in_group("truth", truth_columns()));
    first_later = columns.size();
    add({"zero_keep", "dropout", "clip_grad", "mtp"});
    add(in_group("plan", plan_columns()));
    add({"image_size", "classes", "context", "routing", "router_skew", "capacity", "mtp_weight", "seed",
         "recompute_layers", "tp_overlap_chunks", "bucket_mb", "attention", "nccl_algo", "nccl_proto", "nccl_channels",
         "share_gpu", "cuda_graph", "verify_collectives"});
    add(in_group("memory", memory_part_columns()));
    add(std::move(configuration_));
    add(in_group("truth", first_step_columns()));
    add(in_group("truth", band_columns()));
  }

  ReportColumns columns;
  std::size_t first_later = 0;

 private:
  void add(ReportColumns part) { std::ranges::move(part, std::back_inserter(columns)); }

  /// Takes these out of the columns of model and cut.
  void add(std::initializer_list<std::string_view> names) {
    for (std::string_view const name : names) {
      auto const found = std::ranges::find(configuration_, name, &Column<ReportRow>::name);
      VALIDATE(found != configuration_.end(), fmt::format("no column {}", name));
      columns.push_back(std::move(*found));
      configuration_.erase(found);
    }
  }

  ReportColumns configuration_ = configuration_columns();
};

Table const& table() {
  static Table const joined;
  return joined;
}

}  // namespace

std::span<Column<ReportRow> const> report_columns() { return table().columns; }

std::span<Column<ReportRow> const> later_columns() { return report_columns().subspan(table().first_later); }

bool is_configuration_column(Column<ReportRow> const& column) {
  return (column.group == "what" || column.group == "cut") && column.name != "attention_kernel";
}

bool is_execution_column(Column<ReportRow> const& column) { return column.knob && column.knob->only_runs; }

std::string column_reference_markdown() {
  std::string markdown;
  add_tables(markdown, report_columns());
  add_tables(markdown, ops_columns());
  return markdown;
}

}  // namespace shardbench
