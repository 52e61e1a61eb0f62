#include "harness/planner/demands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

struct Found {};

/// One demand at a time.
std::vector<PlanDemands> single_demands(PlanDemands const& demands) {
  std::vector<PlanDemands> singles;
  for (std::string const& d : demands.fix) singles.push_back({.fix = {d}, .exclude = {}});
  for (std::string const& d : demands.exclude) singles.push_back({.fix = {}, .exclude = {d}});
  return singles;
}

std::string sizes_text(PlanRequest const& r) {
  return fmt::format("{} devices, global batch {}, {} layers, {} heads, seq {}", r.devices, r.base.global_batch,
                     r.base.model.layers, r.base.model.heads, r.base.seq);
}

}  // namespace

std::vector<std::string> texts_of(PlanDemands const& demands) {
  std::vector<std::string> texts;
  for (std::string const& d : demands.fix) texts.push_back("--fix " + d);
  for (std::string const& d : demands.exclude) texts.push_back("--exclude " + d);
  return texts;
}

PlanRequest request_for(Experiment const& base, std::int64_t devices, PlanDemands const& demands) {
  PlanRequest request;
  request.base = base;
  request.devices = devices;
  request.axes = default_axes(base, devices);
  std::set<std::string> fixed;
  for (std::string const& demand : demands.fix) {
    fix_axis(request.axes, demand);
    std::string const axis = demand.substr(0, demand.find('='));
    if (!fixed.insert(axis).second)
      throw InputError(fmt::format("--fix: {} is fixed twice; allowed: once, as {}=VALUE|VALUE", axis, axis));
  }
  for (std::string const& demand : demands.exclude) exclude_from_axis(request.axes, demand);
  return request;
}

bool has_legal_point(PlanRequest const& request) {
  try {
    for_each_candidate(request, [](Candidate const&) { throw Found(); });
  } catch (Found const&) {
    return true;
  }
  return false;
}

void require_legal_point(PlanRequest const& request, PlanDemands const& demands) {
  if (has_legal_point(request)) return;
  if (demands.empty() || !has_legal_point(request_for(request.base, request.devices, {})))
    throw InputError(fmt::format("--gpus: no legal cut for {}; allowed: a device count and batch with more divisors",
                                 sizes_text(request)));
  std::vector<std::string> const texts = texts_of(demands);
  std::vector<PlanDemands> const singles = single_demands(demands);
  for (std::size_t i = 0; i < singles.size(); ++i)
    if (!has_legal_point(request_for(request.base, request.devices, singles[i])))
      throw InputError(fmt::format("{}: leaves no legal cut for {}; allowed: another value, or sizes that it divides",
                                   texts[i], sizes_text(request)));
  throw InputError(fmt::format("{}: together leave no legal cut for {}; allowed: without one of them",
                               fmt::join(texts, " and "), sizes_text(request)));
}

std::vector<RelaxedDemands> relaxed(PlanDemands const& demands) {
  std::vector<RelaxedDemands> all;
  for (std::size_t i = 0; i < demands.fix.size(); ++i) {
    PlanDemands rest = demands;
    rest.fix.erase(rest.fix.begin() + static_cast<std::ptrdiff_t>(i));
    all.push_back({"--fix " + demands.fix[i], std::move(rest)});
  }
  for (std::size_t i = 0; i < demands.exclude.size(); ++i) {
    PlanDemands rest = demands;
    rest.exclude.erase(rest.exclude.begin() + static_cast<std::ptrdiff_t>(i));
    all.push_back({"--exclude " + demands.exclude[i], std::move(rest)});
  }
  return all;
}

}  // namespace shardbench
