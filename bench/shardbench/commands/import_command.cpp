#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/script.hpp"
#include "harness/calibrate/nccl_log.hpp"
#include "harness/config/field_text.hpp"
#include "harness/evaluate/step_totals.hpp"
#include "harness/program/lowered_step.hpp"
#include "harness/report/columns.hpp"
#include "harness/report/csv.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

/// A file of another program, understood.
struct Imported {
  std::string file, kind;
  ReportRow row;
  bool configured = false;  ///< its model and cut are known: it compares with predictions of them
  std::vector<OpsRow> ops;
  std::vector<std::string> notes;
};

std::optional<double> number_of(Json const& object, std::string_view name) {
  auto const found = object.find(name);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// What the file printed, then what the command line says, which counts.
std::optional<Experiment> experiment_of(Json const& flags, Arguments const& arguments, std::string const& file) {
  bool const model = std::ranges::any_of(arguments.fields, [](auto const& f) { return f.first == "model"; });
  if (!model) return std::nullopt;
  Experiment e;
  try {
    for (auto const& printed : flags.items())
      if (std::ranges::none_of(arguments.fields, [&](auto const& f) { return f.first == printed.key(); }))
        set_field(e, printed.key(), printed.value().get<std::string>());
    for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
    resolve(e);
  } catch (InputError const& problem) {
    throw InputError(fmt::format("{}: {}", file, problem.what()));
  }
  return e;
}

void set_results(ReportRow& row, Json const& r) {
  std::pair<char const*, std::optional<double> ReportRow::*> const members[] = {
      {"step_ms_p50", &ReportRow::step_ms_p50},
      {"step_ms_p95", &ReportRow::step_ms_p95},
      {"step_ms_min", &ReportRow::step_ms_min},
      {"step_cv_pct", &ReportRow::step_cv_pct},
      {"instrumented_step_ms", &ReportRow::instrumented_step_ms},
      {"compute_ms", &ReportRow::compute_ms},
      {"exposed_comm_ms", &ReportRow::exposed_comm_ms},
      {"idle_ms", &ReportRow::idle_ms},
      {"comm_ms", &ReportRow::comm_ms},
      {"model_tflops_per_rank", &ReportRow::model_tflops_per_rank},
      {"mfu_pct", &ReportRow::mfu_pct},
      {"peak_tflops", &ReportRow::peak_tflops},
      {"tokens_per_s", &ReportRow::tokens_per_s},
      {"memory_measured_bytes", &ReportRow::memory_measured_bytes},
  };
  for (auto const& [name, member] : members)
    if (auto const value = number_of(r, name)) row.*member = value;
  if (auto const n = number_of(r, "iterations")) row.iterations = static_cast<std::int64_t>(*n);
  if (row.model_tflops_per_rank) row.flops_convention = "as the log counts";
}

OpsRow ops_row(std::string const& run_id, Json const& op) {
  OpsRow row;
  row.run_id = run_id;
  row.label = op.at("label").get<std::string>(), row.kind = op.at("kind").get<std::string>();
  row.axis = op.at("axis").get<std::string>();
  row.count = op.at("count").get<std::int64_t>();
  row.p50_us = op.at("p50_us").get<double>(), row.total_ms = op.at("total_ms").get<double>();
  return row;
}

/// A row for each size of each table: the slower half, as what is sure to be reached.
std::vector<OpsRow> nccl_rows(std::string const& run_id, NcclLog const& log) {
  std::vector<OpsRow> rows;
  for (NcclRun const& run : log.runs)
    run.each_timing([&](NcclRow const& r, NcclTiming const& t, bool in_place) {
      if (t.check == NcclCheck::wrong) return;
      OpsRow row;
      row.run_id = run_id;
      row.label = fmt::format("{} of {} ranks{}", run.collective.empty() ? "collective" : run.collective, run.ranks,
                              in_place ? ", in place" : "");
      row.kind = run.collective, row.axis = "communication", row.count = 1;
      row.bytes = static_cast<double>(r.size_bytes), row.p50_us = t.time_us;
      row.algbw_gb_per_s = t.algbw_gb_per_s, row.busbw_gb_per_s = t.busbw_gb_per_s;
      rows.push_back(std::move(row));
    });
  return rows;
}

Imported imported(Json const& entry, Arguments const& arguments) {
  Imported out;
  out.file = entry.at("file").get<std::string>(), out.kind = entry.at("kind").get<std::string>();
  std::optional<Experiment> const e = experiment_of(entry.at("flags"), arguments, out.file);
  out.configured = e.has_value();
  out.row = start_row(e ? *e : Experiment(), Source::external);
  out.row.command = fmt::format("shardbench {}", fmt::join(arguments.words, " "));
  set_results(out.row, entry.at("results"));
  if (e && out.row.step_ms_p50) {
    std::optional<double> const tflops = out.row.model_tflops_per_rank;
    set_rates(out.row, total_step(lower_step(*e), false));
    if (tflops) out.row.model_tflops_per_rank = tflops;
    out.row.hardware_tflops_per_rank.reset();
  }
  for (Json const& op : entry.at("ops")) out.ops.push_back(ops_row(out.row.run_id, op));
  for (Json const& note : entry.at("notes")) out.notes.push_back(note.get<std::string>());
  if (out.kind == "nccl-tests") out.ops = nccl_rows(out.row.run_id, read_nccl_log(out.file));
  out.row.reason = fmt::format("{}", fmt::join(out.notes, "; "));
  return out;
}

/// The row's cells; those of model and cut are empty where they are not known.
CsvRecord cells_of(Imported const& i) {
  CsvRecord cells;
  for (auto const& column : report_columns())
    cells.push_back(!i.configured && (column.group == "what" || column.group == "cut") ? "" : column.cell(i.row));
  return cells;
}

void append(std::string const& path, Imported const& i) {
  if (path.empty()) return;
  CsvRecord header;
  for (auto const& column : report_columns()) header.emplace_back(column.name);
  if (!i.ops.empty()) append_rows(ops_path(path), i.ops);
  CsvRecord const cells = cells_of(i);
  append_records(path, header, std::span(&cells, 1));
}

void print(Imported const& i, Json const& flags) {
  ReportRow const& r = i.row;
  fmt::print("{}: {}\n", i.file, i.kind);
  std::string cut;
  for (auto const& [flag, text] : flags.items()) cut += fmt::format(" --{} {}", flag, text.get<std::string>());
  if (!cut.empty()) fmt::print("  it says  {}\n", cut.substr(1));
  if (r.step_ms_p50)
    fmt::print("  step      p50 {:.1f} ms, least {:.1f} ms ({} steps, variation {:.1f}%){}\n", *r.step_ms_p50,
               *r.step_ms_min, *r.iterations, *r.step_cv_pct, r.tokens_per_s ? ", " + rate_text(r) : "");
  if (r.compute_ms)
    fmt::print(
        "  time      compute {:.3f} + exposed communication {:.3f} + idle {:.3f} = {:.3f} ms; communication {:.3f}"
        " ms, of which {:.3f} beside compute\n",
        *r.compute_ms, *r.exposed_comm_ms, *r.idle_ms, *r.instrumented_step_ms, *r.comm_ms,
        *r.comm_ms - *r.exposed_comm_ms);
  constexpr std::size_t shown = 6;
  for (std::size_t k = 0; k < std::min(shown, i.ops.size()); ++k) {
    OpsRow const& op = i.ops[k];
    fmt::print("  {:<10}{} x {:.1f} us  {}\n", op.kind, *op.count, *op.p50_us, op.label.substr(0, 90));
  }
  if (i.ops.size() > shown) fmt::print("  and {} more, which --out keeps\n", i.ops.size() - shown);
  for (std::string const& note : i.notes) fmt::print("  note      {}\n", note);
  if (!i.configured && r.step_ms_p50)
    fmt::print("  note      without --model the row has no configuration, and compares with no prediction\n");
}

}  // namespace

int import_command(Arguments const& arguments) {
  std::string const out = arguments.option("out");
  check_outputs(out);
  std::string const text = run_script(find_script("import_runs.py", "import"), arguments.files, "import");
  Json const entries = Json::parse(text);
  for (Json const& entry : entries) {
    Imported const i = imported(entry, arguments);
    append(out, i);
    if (!arguments.has("json")) print(i, entry.at("flags"));
  }
  if (arguments.has("json")) fmt::print("{}\n", entries.dump(2));
  return 0;
}

}  // namespace shardbench
