#pragma once
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/planner/plan_space.hpp"

namespace shardbench {

/// What the user demands of the axes, as the text of --fix and --exclude: "tp=8|16", "recompute=full".
struct PlanDemands {
  std::vector<std::string> fix, exclude;
  bool empty() const { return fix.empty() && exclude.empty(); }
};

/// The flag of each list of demands.
inline constexpr std::array demand_flags{std::pair{"fix", &PlanDemands::fix},
                                         std::pair{"exclude", &PlanDemands::exclude}};

/// "--fix tp=8", "--exclude zero=3", ...
std::vector<std::string> texts_of(PlanDemands const& demands);

/// The request with the default axes for so many devices, narrowed by the demands. Throws InputError for a demand that
/// cannot be read or leaves an axis empty.
PlanRequest request_for(Experiment const& base, std::int64_t devices, PlanDemands const& demands);

/// The same where the demands leave a legal point, nothing where they do not.
std::optional<PlanRequest> legal_request(Experiment const& base, std::int64_t devices, PlanDemands const& demands);

/// The axes over all device counts up to this one, narrowed by the demands. Errors as request_for.
PlanAxes axes_for(Experiment const& base, std::int64_t most_devices, PlanDemands const& demands);

/// Devices that tp, cp and pp of these axes can make up: of one copy of the model.
std::set<std::int64_t> copy_sizes(PlanAxes const& axes);

/// Device counts from..to, ascending, of which some point may be legal; the others have no legal cut. Errors as
/// request_for.
std::vector<std::int64_t> possible_counts(Experiment const& base, PlanDemands const& demands, std::int64_t from,
                                          std::int64_t to);

/// Whether any point is legal.
bool has_legal_point(PlanRequest const& request);

/// Throws InputError when no point is legal, naming the demand that leaves none by itself, or the demands that do so
/// together, or the sizes when there are no demands.
void require_legal_point(PlanRequest const& request, PlanDemands const& demands);

/// The demands without one of them, each with the words of what was left out.
struct RelaxedDemands {
  std::string without;  ///< "--fix tp=8"
  PlanDemands demands;
};
std::vector<RelaxedDemands> relaxed(PlanDemands const& demands);

}  // namespace shardbench
