#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/config/experiment.hpp"
#include "harness/program/models/model_graph.hpp"
#include "harness/report/text.hpp"

namespace shardbench {
namespace {

struct Listed {
  std::string name;
  ModelConfig model;
  ParameterCount count;
};

/// Families together, the smallest of each first.
std::vector<Listed> listed_models() {
  std::vector<Listed> models;
  for (std::string const& name : preset_names()) {
    ModelConfig const model = load_model(name);
    models.push_back({name, model, count_parameters(model)});
  }
  std::ranges::stable_sort(models, {}, [](Listed const& m) { return std::tuple(m.model.family, m.count.total); });
  return models;
}

std::vector<std::string> row_of(Listed const& listed) {
  auto const& [name, model, count] = listed;
  std::string const missing = unsupported_part(model);
  auto const known = [](std::int64_t value) { return value > 0 ? fmt::format("{}", value) : std::string("-"); };
  return {name,
          model.family,
          grouped(static_cast<double>(count.total)),
          count.active != count.total ? grouped(static_cast<double>(count.active)) : "-",
          known(model.layers),
          known(model.hidden),
          known(model.ffn_hidden),
          model.heads > 0 ? fmt::format("{}/{}", model.heads, model.kv_heads) : "-",
          known(model.vocab),
          missing.empty() ? "yes" : fmt::format("no ({})", missing)};
}

}  // namespace

int models_command(Arguments const&) {
  std::vector<std::vector<std::string>> rows{
      {"model", "family", "parameters", "active", "layers", "hidden", "ffn", "heads/kv", "vocab", "blocks run"}};
  for (Listed const& model : listed_models()) rows.push_back(row_of(model));
  for (std::string const& line : table_lines(rows)) fmt::print("{}\n", line);
  fmt::print(
      "\n--model also takes the path of a Hugging Face config.json. `describe` counts the parameters of every "
      "model.\n");
  return 0;
}

}  // namespace shardbench
