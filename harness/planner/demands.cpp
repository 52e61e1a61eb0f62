#include "harness/planner/demands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

struct Found {};

void narrow(PlanAxes& axes, PlanDemands const& demands) {
  std::set<std::string> fixed;
  for (std::string const& demand : demands.fix) {
    fix_axis(axes, demand);
    std::string const axis = demand.substr(0, demand.find('='));
    if (!fixed.insert(axis).second)
      throw InputError(fmt::format("--fix: {} is fixed twice; allowed: once, as {}=VALUE|VALUE", axis, axis));
  }
  for (std::string const& demand : demands.exclude) exclude_from_axis(axes, demand);
}

/// Data-parallel degrees that share the batch in some micro-batch.
std::vector<std::int64_t> dp_degrees(PlanAxes const& axes, std::int64_t batch) {
  std::set<std::int64_t> degrees;
  for (std::int64_t const micro_batch : axes.micro_batch) {
    if (batch % micro_batch != 0) continue;
    std::int64_t const of = batch / micro_batch;
    for (std::int64_t d = 1; d * d <= of; ++d)
      if (of % d == 0) degrees.insert(d), degrees.insert(of / d);
  }
  if (!axes.dp.empty())
    std::erase_if(degrees, [&](std::int64_t d) { return std::ranges::find(axes.dp, d) == axes.dp.end(); });
  return {degrees.begin(), degrees.end()};
}

std::string sizes_text(PlanRequest const& r) {
  if (r.base.model.yolo) return fmt::format("{} devices and global batch {}", r.devices, r.base.global_batch);
  return fmt::format("{} devices, global batch {}, {} layers, {} heads, seq {}", r.devices, r.base.global_batch,
                     r.base.model.layers, r.base.model.heads, r.base.seq);
}

}  // namespace

std::vector<std::string> texts_of(PlanDemands const& demands) {
  std::vector<std::string> texts;
  for (auto const& [flag, list] : demand_flags)
    for (std::string const& d : demands.*list) texts.push_back(fmt::format("--{} {}", flag, d));
  return texts;
}

PlanRequest request_for(Experiment const& base, std::int64_t devices, PlanDemands const& demands) {
  PlanRequest request{.base = base, .devices = devices, .axes = default_axes(base, devices)};
  narrow(request.axes, demands);
  return request;
}

std::optional<PlanRequest> legal_request(Experiment const& base, std::int64_t devices, PlanDemands const& demands) {
  try {
    PlanRequest request = request_for(base, devices, demands);
    if (has_legal_point(request)) return request;
  } catch (InputError const&) {  // --exclude left nothing of an axis that has few values with so many devices
  }
  return std::nullopt;
}

PlanAxes axes_for(Experiment const& base, std::int64_t most_devices, PlanDemands const& demands) {
  PlanAxes axes = axes_up_to(base, most_devices);
  narrow(axes, demands);
  return axes;
}

std::set<std::int64_t> copy_sizes(PlanAxes const& axes) {
  std::set<std::int64_t> sizes;
  for (std::int64_t const tp : axes.tp)
    for (std::int64_t const cp : axes.cp)
      for (std::int64_t const pp : axes.pp) sizes.insert(tp * cp * pp);
  return sizes;
}

std::vector<std::int64_t> possible_counts(Experiment const& base, PlanDemands const& demands, std::int64_t from,
                                          std::int64_t to) {
  PlanAxes const axes = axes_for(base, to, demands);
  std::set<std::int64_t> counts;
  std::set<std::int64_t> const copies = copy_sizes(axes);
  for (std::int64_t const dp : dp_degrees(axes, base.global_batch))
    for (std::int64_t const copy : copies)
      if (copy * dp >= from && copy * dp <= to) counts.insert(copy * dp);
  return {counts.begin(), counts.end()};
}

bool has_legal_point(PlanRequest const& request) {
  try {
    for_each_candidate(request, [](Candidate const&) { throw Found(); });
  } catch (Found const&) {
    return true;
  }
  return false;
}

namespace {

/// The nearest counts on both sides that have a legal cut.
std::string nearest_text(PlanRequest const& request) {
  std::vector<std::int64_t> const counts = possible_counts(request.base, {}, 1, 2 * request.devices);
  auto const legal = [&](std::int64_t n) { return n != request.devices && legal_request(request.base, n, {}); };
  auto const above = std::ranges::lower_bound(counts, request.devices);
  std::vector<std::int64_t> near;
  if (auto const below = std::find_if(std::reverse_iterator(above), counts.rend(), legal); below != counts.rend())
    near.push_back(*below);
  if (auto const next = std::find_if(above, counts.end(), legal); next != counts.end()) near.push_back(*next);
  return near.empty() ? "" : fmt::format(", as {} devices have", fmt::join(near, " or "));
}

}  // namespace

void require_legal_point(PlanRequest const& request, PlanDemands const& demands) {
  if (has_legal_point(request)) return;
  std::int64_t const batch = request.base.global_batch, most = most_microbatches * request.devices;
  std::int64_t const largest = request.axes.micro_batch.empty() ? 1 : std::ranges::max(request.axes.micro_batch);
  if (batch / largest > most)
    throw InputError(
        fmt::format("--global-batch: {} in micro-batches of at most {} are over {} microbatches on each of {} "
                    "devices; allowed: at most {} with these micro-batches",
                    batch, largest, most_microbatches, request.devices, most * largest));
  if (demands.empty() || !has_legal_point(request_for(request.base, request.devices, {})))
    throw InputError(fmt::format("--gpus: no legal cut for {}; allowed: a device count and batch with more divisors{}",
                                 sizes_text(request), nearest_text(request)));
  for (auto const& [flag, list] : demand_flags)
    for (std::string const& demand : demands.*list) {
      PlanDemands alone;
      alone.*list = {demand};
      if (!has_legal_point(request_for(request.base, request.devices, alone)))
        throw InputError(
            fmt::format("--{} {}: leaves no legal cut for {}; allowed: another value, or sizes that it divides", flag,
                        demand, sizes_text(request)));
    }
  throw InputError(fmt::format("{}: together leave no legal cut for {}; allowed: without one of them",
                               fmt::join(texts_of(demands), " and "), sizes_text(request)));
}

std::vector<RelaxedDemands> relaxed(PlanDemands const& demands) {
  std::vector<RelaxedDemands> all;
  for (auto const& [flag, list] : demand_flags)
    for (std::size_t i = 0; i < (demands.*list).size(); ++i) {
      PlanDemands rest = demands;
      (rest.*list).erase((rest.*list).begin() + static_cast<std::ptrdiff_t>(i));
      all.push_back({fmt::format("--{} {}", flag, (demands.*list)[i]), std::move(rest)});
    }
  return all;
}

}  // namespace shardbench
