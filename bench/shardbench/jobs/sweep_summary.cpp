#include "bench/shardbench/jobs/sweep_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "harness/report/text.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

/// The reason without its numbers: lists of them count as one, and so do "1 rank" and "2 ranks".
std::string kind_of(std::string const& reason) {
  static std::regex const numbers(R"([0-9]+(\.[0-9]+)?(, [0-9]+(\.[0-9]+)?)*)"), several("# ranks");
  return std::regex_replace(std::regex_replace(reason, numbers, "#"), several, "# rank");
}

struct Group {
  Outcome outcome;
  std::string kind;
  std::size_t count, first;  ///< points, and the index of the first
};

std::vector<Group> groups_of(PointOutcomes const& outcomes) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i] || outcomes[i]->outcome == Outcome::passed) continue;
    std::string const kind = kind_of(outcomes[i]->reason);
    auto const known = std::ranges::find_if(
        groups, [&](Group const& g) { return g.outcome == outcomes[i]->outcome && g.kind == kind; });
    if (known == groups.end())
      groups.push_back({outcomes[i]->outcome, kind, 1, i});
    else
      ++known->count;
  }
  // What went wrong before what could not be.
  std::ranges::stable_sort(groups, {}, [](Group const& g) { return g.outcome == Outcome::skipped; });
  return groups;
}

}  // namespace

std::vector<std::string> ran_lines(std::vector<SweepPoint> const& points, PointOutcomes const& outcomes) {
  auto const cell = [](std::optional<double> v, int digits) {
    return v ? fmt::format("{:.{}f}", *v, digits) : std::string("-");
  };
  auto const images =
      std::ranges::count_if(points, [](SweepPoint const& point) { return point.experiment.model.takes_images(); });
  char const* const rate = images == 0                                            ? "tokens/s"
                           : images == static_cast<std::ptrdiff_t>(points.size()) ? "images/s"
                                                                                  : "tokens or images/s";
  std::vector<std::vector<std::string>> table{
      {"configuration", "outcome", "step ms", rate, "compute ms", "exposed ms", "idle ms", "max_rel_error"}};
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!outcomes[i] || outcomes[i]->outcome == Outcome::skipped) continue;
    PointOutcome const& o = *outcomes[i];
    table.push_back({points[i].name, std::string(to_string(o.outcome)), cell(o.step_ms, 2),
                     cell(o.rate_per_s, images > 0 ? 2 : 0), cell(o.compute_ms, 2), cell(o.exposed_ms, 2),
                     cell(o.idle_ms, 2), o.max_rel_error ? fmt::format("{:.1e}", *o.max_rel_error) : "-"});
  }
  return table.size() > 1 ? table_lines(table) : std::vector<std::string>();
}

std::vector<std::string> reason_lines(std::vector<SweepPoint> const& points, PointOutcomes const& outcomes) {
  std::vector<std::string> lines;
  for (Group const& g : groups_of(outcomes)) {
    std::string const& reason = outcomes[g.first]->reason;
    lines.push_back(fmt::format("{} {}{} {}: {}", g.count, to_string(g.outcome), g.count > 1 ? ", e.g." : ":",
                                points[g.first].name, reason.empty() ? "no reason given" : reason));
  }
  return lines;
}

std::string outcome_counts(PointOutcomes const& outcomes) {
  EnumArray<Outcome, int> counts{};
  for (auto const& o : outcomes)
    if (o) ++counts[o->outcome];
  std::vector<std::string> parts;
  for (Outcome const outcome : enum_values<Outcome>())
    if (counts[outcome] > 0) parts.push_back(fmt::format("{} {}", counts[outcome], to_string(outcome)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace shardbench
