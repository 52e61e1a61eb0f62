// Parameters: how a weight is cut into this rank's sections, and who reduces its gradient.
#include <fmt/format.h>

#include <algorithm>

#include "harness/program/graph/graph_builder.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::int32_t GraphBuilder::add_parameter(Parameter parameter) {
  parameter.chunk = chunk_;
  for (auto& section : parameter.sections)
    if (section.tp_copies == 0) section.tp_copies = program_.degree[static_cast<std::size_t>(Axis::tp)];
  // Where every piece lies on two stages, the copy of the second direction is counted once with the first.
  if (rules_of(program_.schedule.kind).mirrored() && program_.direction_of(chunk_) == 1) parameter.copy = true;
  parameter.weight =
      new_tensor(parameter.name, TensorRole::parameter, program_.precision, parameter.rows, parameter.cols);
  if (!caches())
    parameter.gradient = new_tensor(parameter.name + ".gradient", TensorRole::gradient, experiment_.gradient_dtype,
                                    parameter.rows, parameter.cols);
  for (TensorId const id : {parameter.weight, parameter.gradient}) {
    if (id == no_tensor) continue;
    Tensor& t = program_.tensors[static_cast<std::size_t>(id)];
    t.global_rows = 0;
    for (auto const& section : parameter.sections) t.global_rows += section.global_rows;
    t.global_cols = parameter.global_cols;
  }
  auto const index = static_cast<std::int32_t>(program_.parameters.size());
  parameter_by_name_[fmt::format("{}@{}", parameter.name, chunk_)] = index;
  program_.parameters.push_back(std::move(parameter));
  gradient_partial.emplace_back();
  gradient_written_.push_back(false);
  return index;
}

std::int32_t GraphBuilder::parameter_index(std::string const& name) const {
  auto const it = parameter_by_name_.find(fmt::format("{}@{}", name, chunk_));
  return it == parameter_by_name_.end() ? -1 : it->second;
}

Parameter GraphBuilder::cut_weight(LinearSpec const& spec, Placement const& placement) const {
  auto const axis = static_cast<std::size_t>(Axis::tp);
  std::int64_t const tp = program_.degree[axis], index = program_.coordinate[axis];
  Parameter p;
  p.name = qualified(spec.weight_name.empty() ? spec.name : spec.weight_name);
  p.cols = p.global_cols = spec.inputs;
  if (is_shard(placement, 1)) {
    if (spec.inputs % tp != 0)
      throw IllegalConfig(fmt::format("{}: dim 1 of {} does not divide by tp={}", spec.role, spec.inputs, tp));
    p.cols = spec.inputs / tp;
    p.col_begin = index * p.cols;
  }
  for (auto const& s : spec.sections) {
    ParameterSection section{p.name + s.suffix, s.padded_rows, 0, s.rows, is_shard(placement, 1) ? 1 : 0};
    if (is_shard(placement, 0)) {
      std::int64_t const units = s.units > 0 ? s.units : s.padded_rows;
      bool const replicated = s.replicable && units < tp && tp % units == 0;
      if (!replicated && units % tp != 0)
        throw IllegalConfig(fmt::format("{}: dim 0 of {} units does not divide by tp={}", spec.role, units, tp));
      std::int64_t const parts = replicated ? units : tp;
      section.tp_copies = tp / parts;
      section.rows = s.padded_rows / parts;
      section.row_begin = section.rows * (replicated ? index / (tp / units) : index);
    }
    p.rows += section.rows;
    p.sections.push_back(std::move(section));
  }
  return p;
}

std::int64_t GraphBuilder::first_row(LinearSpec const& spec) const {
  Placement const placement =
      program_.degree[static_cast<std::size_t>(Axis::tp)] > 1 ? strategy_.weight(spec.role) : Placement{Replicate{}};
  return cut_weight(spec, placement).sections.front().row_begin;
}

std::int32_t GraphBuilder::add_vector(std::string const& name, std::vector<ParameterSection> sections,
                                      std::int64_t rows, InitKind init) {
  Parameter p;
  p.name = name;
  p.sections = std::move(sections);
  p.rows = rows;
  p.cols = p.global_cols = 1;
  p.init = init;
  return add_parameter(std::move(p));
}

void GraphBuilder::writes_gradient(Op& op, std::int32_t parameter, Layout const& rows_layout) {
  auto const index = static_cast<std::size_t>(parameter);
  // A weight that two ops use (tied head): the first to run overwrites in the first microbatch, the second always adds.
  op.accumulate = !gradient_written_[index];
  op.always_accumulate = gradient_written_[index];
  op.part = BackwardPart::weight;
  gradient_written_[index] = true;
  for (std::size_t a = 0; a < axis_count; ++a)
    if (is_shard(rows_layout[a], sequence_dim) || is_shard(rows_layout[a], batch_dim) || is_private(rows_layout[a]))
      gradient_partial[index][a] = true;
}

void GraphBuilder::reduce_replicated_sections(std::int32_t parameter, Placement const& placement,
                                              LinearSpec const& spec) {
  auto const axis = static_cast<std::size_t>(Axis::tp);
  std::int64_t const tp = program_.degree[axis];
  if (tp == 1 || !is_shard(placement, 0)) return;
  std::int64_t begin = 0, end = 0, row = 0;
  auto const& p = program_.parameters[static_cast<std::size_t>(parameter)];
  for (std::size_t i = 0; i < spec.sections.size(); ++i) {
    auto const& s = spec.sections[i];
    if (s.replicable && s.units < tp) {
      if (end == 0) begin = row;
      end = row + p.sections[i].rows;
    }
    row += p.sections[i].rows;
  }
  if (end == 0) return;
  // Each copy of a KV head has seen its own query heads only; the copies agree once a step, after the last microbatch.
  std::int64_t const count = (end - begin) * p.cols;
  TensorRef const slice{p.gradient, begin * p.cols, 0};
  Op op = make_collective(OpKind::all_reduce, group_id("kv_replicas"), count, experiment_.gradient_dtype,
                          spec.name + ".kv_replicas", slice, slice);
  op.when = When::last;
  op.part = BackwardPart::weight;
  emit(std::move(op));
}

}  // namespace shardbench
