#include "bench/shardbench/commands/calibrate_logs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/shardbench/cli/outputs.hpp"
#include "harness/calibrate/collective_fit.hpp"
#include "harness/calibrate/nccl_review.hpp"
#include "harness/calibrate/profile_text.hpp"
#include "harness/calibrate/topology.hpp"
#include "harness/comm/bus_bandwidth.hpp"
#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string check_text(NcclCheck check) {
  return check == NcclCheck::right ? "right" : check == NcclCheck::wrong ? "WRONG" : "-";
}

void print_half(std::optional<NcclTiming> const& half) {
  if (!half)
    fmt::print("  {:>12} {:>10} {:>10} {:>6}", "", "", "", "");
  else
    fmt::print("  {:>12.2f} {:>10.2f} {:>10.2f} {:>6}", half->time_us, half->algbw_gb_per_s, half->busbw_gb_per_s,
               check_text(half->check));
}

void print_head(NcclRun const& run) {
  std::string const collective = run.collective.empty() ? "a collective that is not named" : run.collective;
  fmt::print("{}{}{}, {}{}{}{}\n", run.title.empty() ? "" : fmt::format("[{}] ", printable(run.title)), collective,
             run.type().empty() ? "" : " of " + printable(run.type()),
             run.ranks > 0 ? fmt::format("{} ranks", run.ranks) : "ranks unknown",
             run.nodes() > 1 ? fmt::format(" on {} hosts", run.nodes()) : "",
             run.devices.empty() ? "" : fmt::format(", {}", printable(run.devices.front().name)),
             run.nccl_version.empty() ? "" : fmt::format(", NCCL {}", printable(run.nccl_version)));
}

void print_table(NcclRun const& run) {
  if (run.rows.empty()) return;
  fmt::print("  {:>14} {:>12} {:>10} {:>10} {:>6}  {:>12} {:>10} {:>10} {:>6}\n", "bytes", "time us", "algbw GB/s",
             "busbw GB/s", "check", "in place us", "algbw GB/s", "busbw GB/s", "check");
  for (NcclRow const& row : run.rows) {
    fmt::print("  {:>14}", row.size_bytes);
    print_half(row.out_of_place);
    print_half(row.in_place);
    fmt::print("\n");
  }
}

void print_fit(CollectiveFit const& fit) {
  if (!fit.refusal.empty()) {
    fmt::print("  no fit: {}\n", fit.refusal);
    return;
  }
  fmt::print(
      "  fit: latency {:.4g} us, bandwidth {:.4g} GB/s of payload, half of it at {:.3g} bytes; off by {:.1f}% in the "
      "middle, {:.0f}% at worst (at {:.0f} bytes), from {} sizes\n",
      fit.latency_us, fit.bandwidth_gb_per_s, fit.half_bytes, 100 * fit.median_residual, 100 * fit.worst_residual,
      fit.worst_bytes, fit.points);
}

void print_run(NcclRun const& run, NcclReview const& found, CollectiveFit const& fit) {
  print_head(run);
  print_table(run);
  // What one rank copies to itself is no bandwidth of a link.
  if (found.peak_busbw > 0 && !found.has(NcclFinding::one_rank))
    fmt::print("  best busbw {:.2f} GB/s at {} bytes; mean of the values here {:.4f} GB/s{}\n", found.peak_busbw,
               found.peak_size, found.mean_shown,
               run.printed_average ? fmt::format(", printed average {:g}", *run.printed_average) : "");
  if (run.collective == "all_to_all" && run.nodes() > 1 && found.peak_busbw > 0)
    fmt::print("  each rank's part of a host's network carries {:.2f} GB/s at its best: {} of {} hosts are elsewhere\n",
               found.peak_busbw / *run.bus_factor() * remote_share(static_cast<int>(run.nodes())), run.nodes() - 1,
               run.nodes());
  for (NcclSuspicion const& s : found.suspicions)
    fmt::print("  {}: {}{}\n", to_string(s.kind), s.line > 0 ? fmt::format("line {}, ", s.line) : "", s.text);
  print_fit(fit);
}

/// Whether this table is the one of its run that a system takes: of several types, that which steps send most.
bool speaks_for_its_types(NcclRun const& run) {
  if (run.types.empty()) return true;
  for (std::string_view const type : {"bfloat16", "half", "float"})
    if (std::ranges::find(run.types, type) != run.types.end()) return run.type() == type;
  return run.type() == run.types.front();
}

/// The system of --system with measured times from logs in its network.
class LoggedSystem {
 public:
  explicit LoggedSystem(Arguments const& arguments) : path_(arguments.option("out")) {
    if (path_.empty()) {
      if (arguments.has("system")) throw InputError("--system: with --nccl-log only together with --out");
      return;
    }
    if (!arguments.has("system"))
      throw InputError("--out: needs --system NAME, the device that the logs were taken on");
    if (!path_.ends_with(".yaml")) throw InputError(fmt::format("--out: {} does not end in .yaml", in_quotes(path_)));
    check_text_file("out", path_);
    profile_ = load_system(arguments.option("system"));
    profile_.name += " with measured collectives";
  }

  /// Runs within a host speak for the innermost level, others for the outermost.
  void take(NcclRun const& run, NcclReview const& found, std::string const& log) {
    if (path_.empty()) return;
    std::string const operation = run.collective == "send_receive" ? "send" : run.collective;
    NetworkLevel& level = run.nodes() > 1 ? profile_.network.back() : profile_.network.front();
    MeasuredTimes times{operation, run.ranks, {}};
    for (NcclPoint const& p : found.points) times.points.emplace_back(p.bytes, p.time_us);
    std::erase_if(level.measured,
                  [&](MeasuredTimes const& m) { return m.operation == operation && m.ranks == run.ranks; });
    level.measured.push_back(std::move(times));
    profile_.sources.push_back(fmt::format("{} of {} over {} ranks: {}", operation, run.type(), run.ranks, log));
    if (!run.types.empty())
      fmt::print("  {} stands for all types in the system; the run has {}\n", printable(run.type()),
                 printable(fmt::to_string(fmt::join(run.types, ", "))));
    ++taken_;
  }

  void write() const {
    if (path_.empty()) return;
    if (taken_ == 0) throw InputError("--out: no log supports a fit, nothing is written");
    write_text_file(path_, profile_yaml(profile_));
    fmt::print("{}: {} curve{} written\n", path_, taken_, taken_ == 1 ? "" : "s");
  }

 private:
  std::string path_;
  SystemProfile profile_;
  int taken_ = 0;
};

}  // namespace

int report_nccl_logs(Arguments const& arguments) {
  LoggedSystem system(arguments);
  NcclLimits limits;
  if (arguments.has("link")) limits.link_gb_per_s = parse_number("link", arguments.option("link"), 1e-3, 1e6);
  int code = 0;
  for (std::string const& path : arguments.lists.find("nccl-log")->second) {
    NcclLog const log = read_nccl_log(path);
    fmt::print("{}: {} table{}{}\n", path, log.runs.size(), log.runs.size() == 1 ? "" : "s",
               log.other_count > 0
                   ? fmt::format(", {} other lines, the first: {}", log.other_count, printable(log.other_lines.front()))
                   : "");
    for (NcclRun const& run : log.runs) {
      NcclReview const found = review(run, limits);
      CollectiveFit const fit = fit_run(found);
      print_run(run, found, fit);
      if (fit.refusal.empty() && speaks_for_its_types(run)) system.take(run, found, path);
      if (found.has(NcclFinding::wrong_result) || found.has(NcclFinding::no_rows)) code = 1;
    }
  }
  system.write();
  return code;
}

void report_topologies(std::vector<std::string> const& paths) {
  for (std::string const& path : paths) {
    Topology const t = read_topology(path);
    fmt::print("{}: {} GPUs, {} network cards\n", path, t.gpus(),
               static_cast<std::int64_t>(t.devices.size()) - t.gpus());
    for (TopologyDevice const& d : t.devices)
      if (d.is_gpu)
        fmt::print("  {:<6} CPUs {}, NUMA node {}\n", d.name,
                   d.cpus ? fmt::format("{} ({})", *d.cpus, printable(d.cpu_list)) : "unknown",
                   d.numa.empty() ? "unknown" : printable(d.numa));
    for (std::size_t const gpu : t.off_the_links())
      fmt::print("  {} has no NVLink or XGMI to any other GPU, while others have: a broken link or card\n",
                 t.devices[gpu].name);
    for (std::int64_t size = 2; size <= t.gpus(); ++size) {
      auto const groups = t.groups(size);
      if (groups.empty()) continue;
      fmt::print("  tensor-parallel groups of {}:", size);
      for (auto const& group : groups) {
        std::string names;
        for (std::size_t const member : group) names += (names.empty() ? "" : ",") + t.devices[member].name;
        TopologyLink const worst = t.worst_link(group);
        fmt::print(" ({}: {}{})", names, to_string(worst.kind), worst.nvlinks > 0 ? std::to_string(worst.nvlinks) : "");
      }
      fmt::print("\n");
    }
  }
}

}  // namespace shardbench
