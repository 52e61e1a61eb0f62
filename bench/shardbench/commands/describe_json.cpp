// The only file of the command line that includes nlohmann/json.hpp.
#include "bench/shardbench/commands/describe_json.hpp"

#include <nlohmann/json.hpp>

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

Json traffic_json(StepTotals const& totals) {
  Json traffic = Json::object();
  for (std::size_t a = 0; a < axis_count; ++a) {
    AxisTraffic const& axis = totals.traffic[a];
    if (axis.calls > 0)
      traffic[std::string(to_string(static_cast<Axis>(a)))] = {{"payload_bytes", axis.payload_bytes},
                                                               {"wire_bytes", axis.wire_bytes}};
  }
  return traffic;
}

Json memory_json(StepTotals const& t) {
  Json largest = Json::array();
  for (auto const& [name, bytes] : t.largest_tensors) largest.push_back({{"name", name}, {"bytes", bytes}});
  return {{"stage", t.fullest_stage},
          {"parameter_bytes", t.parameter_bytes},
          {"gradient_bytes", t.gradient_bytes},
          {"optimizer_bytes", t.optimizer_bytes},
          {"buffer_bytes", t.buffer_bytes},
          {"activation_bytes", t.activation_bytes},
          {"kv_cache_bytes", t.kv_cache_bytes},
          {"peak_bytes", t.peak_bytes},
          {"microbatches_in_flight", t.microbatches_in_flight},
          {"largest_tensors", largest}};
}

}  // namespace

std::string description_json(Description const& d) {
  ParameterCount const& p = d.parameters;
  Experiment const& e = d.experiment;
  Json object{{"model", e.model_name},
              {"command", "shardbench describe " + command_flags(e)},
              {"parameters", p.total},
              {"active_parameters", p.active}};
  object["parameters_by_part"] = {
      {"embedding", p.embedding}, {"head", p.head}, {"blocks", p.blocks}, {"norms", p.norms}, {"mtp", p.mtp}};
  object["ranks"] = e.ranks;
  object["seq"] = e.seq;
  object["global_batch"] = e.global_batch;
  object["microbatches"] = e.microbatches();
  for (char const* key :
       {"parameters_held_per_rank", "flops_per_step_per_rank", "traffic_per_step_per_rank", "memory_of_fullest_rank"})
    object[key] = nullptr;
  object["not_counted"] = d.not_counted.empty() ? Json(nullptr) : Json(d.not_counted);
  if (d.totals) {
    StepTotals const& t = *d.totals;
    object["parameters_held_per_rank"] = t.parameters_held;
    object["flops_per_step_per_rank"] = {{"model_causal_halved", t.model_flops},
                                         {"model_full_attention", t.model_flops_full},
                                         {"hardware_causal_halved", t.hardware_flops}};
    object["traffic_per_step_per_rank"] = traffic_json(t);
    object["memory_of_fullest_rank"] = memory_json(t);
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardbench
