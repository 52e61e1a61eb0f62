// Parameters: how a weight is cut into this rank's sections.
#include "harness/program/graph/parameters.hpp"

#include <fmt/format.h>

#include "kernels/core/error.hpp"

namespace shardbench {

std::int64_t LinearSpec::outputs() const {
  std::int64_t rows = 0;
  for (SectionSpec const& section : sections) rows += section.padded_rows;
  return rows;
}

double LinearSpec::model_share() const {
  std::int64_t rows = 0;
  for (SectionSpec const& section : sections) rows += section.rows;
  return rows > 0 ? static_cast<double>(rows) / static_cast<double>(outputs()) : 1;
}

LinearSpec whole_weight(std::string const& name, std::int64_t outputs, std::int64_t inputs, bool bias,
                        std::int64_t units) {
  return {name, name, {{"", outputs, outputs, units}}, inputs, bias};
}

Placement weight_placement(Tape const& t, std::string const& role) {
  return t.program.degree[Axis::tp] > 1 ? t.strategy.weight(role) : Placement{Replicate{}};
}

namespace {

/// The rows of a section that this rank holds when the weight is cut by rows.
void cut_rows(ParameterSection& section, SectionSpec const& s, std::string const& role, std::int64_t tp,
              std::int64_t rank) {
  std::int64_t const units = s.units > 0 ? s.units : s.padded_rows;
  bool const replicated = s.replicable && units < tp && tp % units == 0;
  if (!replicated && units % tp != 0)
    throw IllegalConfig(fmt::format("{}: dim 0 of {} units does not divide by tp={}", role, units, tp));
  std::int64_t const parts = replicated ? units : tp;
  section.tp_copies = tp / parts;
  section.rows = s.padded_rows / parts;
  section.row_begin = section.rows * (rank / section.tp_copies);
}

}  // namespace

Parameter cut_weight(Tape const& t, LinearSpec const& spec, Placement const& placement) {
  std::int64_t const tp = t.program.degree[Axis::tp], rank = t.program.coordinate[Axis::tp];
  Parameter p;
  p.name = t.qualified(spec.weight_name.empty() ? spec.name : spec.weight_name);
  p.cols = p.global_cols = spec.inputs;
  if (is_shard(placement, 1)) {
    if (spec.inputs % tp != 0)
      throw IllegalConfig(fmt::format("{}: dim 1 of {} does not divide by tp={}", spec.role, spec.inputs, tp));
    p.cols = spec.inputs / tp;
    p.col_begin = rank * p.cols;
  }
  for (SectionSpec const& s : spec.sections) {
    ParameterSection section{p.name + s.suffix, s.padded_rows, 0, s.rows, is_shard(placement, 1) ? 1 : 0};
    if (is_shard(placement, 0)) cut_rows(section, s, spec.role, tp, rank);
    p.rows += section.rows;
    p.sections.push_back(std::move(section));
  }
  return p;
}

std::int64_t first_row(Tape const& t, LinearSpec const& spec) {
  return cut_weight(t, spec, weight_placement(t, spec.role)).sections.front().row_begin;
}

Parameter lookup_table(Tape const& t, LinearSpec const& spec, Placement const& placement) {
  Parameter table = cut_weight(t, spec, placement);
  table.name += ".weight";
  table.sections[0].key += ".weight";
  return table;
}

ParameterId add_uncut(Tape& t, std::string const& name, std::int64_t rows, std::int64_t cols, InitKind init) {
  return t.add_parameter({.name = name,
                          .sections = {{name, rows, 0, rows}},
                          .rows = rows,
                          .cols = cols,
                          .global_cols = cols,
                          .init = init,
                          .bucket = {}});
}

void emit_bias_gradient(Tape& t, TensorRef dy, std::int64_t rows, std::int64_t cols, ParameterId bias,
                        Layout const& rows_layout, std::string const& name) {
  if (!bias.valid()) return;
  Op& op = t.emit(OpKind::column_sum, BlockShape{rows, cols}, name + ".db", {dy}, {t.gradient(bias)});
  t.writes_gradient(op, bias, rows_layout);
}

void reduce_replicated_sections(Tape& t, ParameterId parameter, Placement const& placement,
                                std::vector<SectionSpec> const& sections, std::string const& name) {
  std::int64_t const tp = t.program.degree[Axis::tp];
  if (tp == 1 || !parameter.valid() || !is_shard(placement, 0)) return;
  std::int64_t begin = 0, end = 0, row = 0;
  Parameter const& p = t.program.parameters[parameter];
  for (std::size_t i = 0; i < sections.size(); ++i) {
    std::int64_t const next = row + p.sections[i].rows;
    if (sections[i].replicable && sections[i].units < tp) {
      if (end == 0) begin = row;
      end = next;
    }
    row = next;
  }
  if (end == 0) return;
  // Each copy of a KV head has seen its own query heads only; the copies agree once a step, after the last microbatch.
  TensorRef const slice = behind(t.gradient(parameter), begin * p.cols);
  Op& op = t.emit(t.make_collective(OpKind::all_reduce, id_of(GroupKind::kv_replicas), (end - begin) * p.cols,
                                    t.experiment.gradient_dtype, name + ".kv_replicas", slice, slice));
  op.when = When::last;
  op.part = BackwardPart::weight;
}

}  // namespace shardbench
