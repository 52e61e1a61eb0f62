#include "bench/shardbench/jobs/ops_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "harness/evaluate/op_rates.hpp"
#include "harness/program/analysis/count.hpp"

namespace shardbench {
namespace {

bool same_label(OpsSample const& a, OpsSample const& b) {
  return a.label == b.label && a.kind == b.kind && a.phase == b.phase && a.axis == b.axis;
}

OpsRow row_of(std::string const& run_id, OpsSample const& s) {
  OpsRow row;
  row.run_id = run_id;
  row.label = s.label, row.kind = s.kind, row.phase = s.phase, row.axis = s.axis;
  row.count = s.count;
  row.bytes = s.bytes, row.flops = s.flops, row.p50_us = s.p50_us, row.total_ms = s.total_ms;
  set_op_rates(row, s.op, s.group_ranks, s.p50_us);
  return row;
}

}  // namespace

std::vector<OpsSample> ops_samples(StepProgram const& program, Measurement const& m) {
  StepCount const count = count_step(program, Replay(program));
  std::vector<OpsSample> samples;
  for (LabelTime const& time : m.labels) {
    bool const transfer = time.label >= program.labels.size();
    OpLabel const label =
        transfer ? OpLabel{"pipeline", "transfer", OpKind::send, Axis::pp} : program.labels[time.label];
    LabelCount const& counted = count.labels[std::min<std::size_t>(time.label, program.labels.size())];
    double const calls = std::max<double>(1, static_cast<double>(counted.count));
    OpsSample s;
    s.label = label.name, s.phase = label.phase;
    s.kind = transfer ? "send, receive" : std::string(to_string(label.kind));
    s.axis = transfer || is_communication(label.kind) ? std::string(to_string(label.axis)) : "compute";
    s.op = label.kind;
    s.group_ranks = transfer ? 2 : group_ranks(program, LabelId(time.label));
    s.count = time.count;
    s.bytes = counted.bytes / calls, s.flops = counted.flops / calls;
    s.p50_us = time.p50_us, s.total_ms = time.total_ms;
    samples.push_back(std::move(s));
  }
  return samples;
}

std::vector<OpsSample> merge_ranks(std::vector<std::vector<OpsSample>> const& ranks) {
  std::vector<OpsSample> sums;
  std::vector<double> holders;
  for (std::vector<OpsSample> const& rank : ranks)
    for (OpsSample const& s : rank) {
      auto const found = std::ranges::find_if(sums, [&](OpsSample const& sum) { return same_label(sum, s); });
      if (found == sums.end()) {
        sums.push_back(s);
        holders.push_back(1);
        continue;
      }
      holders[found - sums.begin()] += 1;
      found->count = std::max(found->count, s.count);
      found->bytes += s.bytes, found->flops += s.flops, found->p50_us += s.p50_us, found->total_ms += s.total_ms;
      found->group_ranks = std::max(found->group_ranks, s.group_ranks);
    }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (double* const slot : {&sums[i].bytes, &sums[i].flops, &sums[i].p50_us}) *slot /= holders[i];
    sums[i].total_ms /= static_cast<double>(ranks.size());
  }
  return sums;
}

std::string to_lines(std::vector<OpsSample> const& samples) {
  std::string lines;
  for (OpsSample const& s : samples)
    lines += fmt::format("{}\t{}\t{}\t{}\t{} {} {} {:.17g} {:.17g} {:.17g} {:.17g}\n", s.label, s.kind, s.phase, s.axis,
                         static_cast<int>(s.op), s.group_ranks, s.count, s.bytes, s.flops, s.p50_us, s.total_ms);
  return lines;
}

std::vector<OpsSample> from_lines(std::string const& lines) {
  std::vector<OpsSample> samples;
  std::istringstream in(lines);
  OpsSample s;
  while (std::getline(in, s.label, '\t') && std::getline(in, s.kind, '\t') && std::getline(in, s.phase, '\t') &&
         std::getline(in, s.axis, '\t')) {
    int op = 0;
    in >> op >> s.group_ranks >> s.count >> s.bytes >> s.flops >> s.p50_us >> s.total_ms;
    in.ignore(1);
    s.op = static_cast<OpKind>(op);
    samples.push_back(s);
  }
  return samples;
}

std::vector<OpsRow> ops_rows(Job& job, std::string const& run_id, StepProgram const& program, Measurement const& m) {
  std::vector<std::vector<OpsSample>> ranks;
  for (std::string const& lines : job.gather(to_lines(ops_samples(program, m)))) ranks.push_back(from_lines(lines));
  std::vector<OpsRow> rows;
  for (OpsSample const& s : merge_ranks(ranks)) rows.push_back(row_of(run_id, s));
  return rows;
}

}  // namespace shardbench
