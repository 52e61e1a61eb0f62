#include "bench/shardbench/plan/plan_facts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/shardbench/plan/plan_flags.hpp"
#include "bench/shardbench/plan/plan_rows.hpp"
#include "harness/evaluate/simulated_row.hpp"
#include "harness/planner/what_if.hpp"

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

Json what_if_entry(WhatIf const& w, std::string_view kind) {
  Json entry{{"kind", kind}, {"change", w.change}};
  if (w.same_cut_ms > 0) entry["step_ms"] = w.same_cut_ms;
  if (!w.problem.empty()) entry["problem"] = w.problem;
  if (!w.replanned) return entry;
  entry["again_ms"] = w.replanned->step_ms;
  entry["again_cut"] = cut_text(w.replanned->experiment);
  return entry;
}

std::string what_ifs_fact(PlanInput const& in, CountPlan const& plan, CostModel const& model) {
  PlannedPoint const& best = plan.plan.result.best.front();
  Json all = Json::array();
  for (WhatIf const& w : hardware_what_ifs(plan.request, model, best, in.options))
    all.push_back(what_if_entry(w, "hardware"));
  for (WhatIf const& w : cut_what_ifs(plan.request, model, best, in.options)) all.push_back(what_if_entry(w, "cut"));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

PlannedFacts planned_facts(PlanInput const& in, CountPlan const& plan, CostModel const& model,
                           std::vector<ReportRow> const& rows) {
  PlannedFacts out;
  Experiment const& e = plan.plan.result.best.front().experiment;
  std::string const command = simulate_command_of(in, e);
  auto const row = std::ranges::find(rows, command, &ReportRow::command);
  std::string const run_id = row == rows.end() ? std::string() : row->run_id;
  auto const [prediction, memory, totals] = predict(lower_step(e), model);
  out.facts = facts_of(run_id, e, prediction, memory, model.system());
  out.facts.what_ifs = what_ifs_fact(in, plan, model);
  out.ops = predicted_ops_rows(run_id, prediction);
  return out;
}

}  // namespace shardbench
