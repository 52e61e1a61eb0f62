#include "harness/comm/launch_env.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

int parse_number(char const* name, std::string_view whole, std::string_view text) {
  int value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw InputError(fmt::format("environment variable {} is '{}': a number >= 0 is allowed", name, whole));
  return value;
}

/// The variable's text; empty where it is not set.
std::string_view text_of(Environment const& environment, char const* name) {
  char const* const text = environment(name);
  return text ? text : std::string_view();
}

std::optional<int> first_number(Environment const& environment, std::initializer_list<char const*> names) {
  for (char const* name : names)
    if (auto const text = text_of(environment, name); !text.empty()) return parse_number(name, text, text);
  return std::nullopt;
}

// Slurm's short form of tasks per node: "8(x2),4" is 8, 8, 4.
int tasks_of_node(char const* name, std::string_view list, int node) {
  for (std::string_view rest = list; !rest.empty();) {
    auto const comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    int repeat = 1;
    if (auto const open = item.find("(x"); open != std::string_view::npos && item.ends_with(')')) {
      repeat = parse_number(name, list, item.substr(open + 2, item.size() - open - 3));
      item = item.substr(0, open);
    }
    int const tasks = parse_number(name, list, item);
    if (node < repeat) return tasks;
    node -= repeat;
  }
  throw InputError(
      fmt::format("environment variable {} is '{}': it has no entry for this node (SLURM_NODEID)", name, list));
}

}  // namespace

char const* process_environment(char const* name) { return std::getenv(name); }

bool launched_by_mpi(Environment const& environment) {
  auto const set = [&](char const* name) { return !text_of(environment, name).empty(); };
  if (set("OMPI_COMM_WORLD_SIZE") || set("PMIX_RANK") || (set("PMI_RANK") && set("PMI_SIZE"))) return true;
  if (!set("SLURM_STEP_ID") && !set("SLURM_STEPID")) return false;
  return first_number(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1) > 1;
}

bool launched_as_job(Environment const& environment) {
  return launched_by_mpi(environment) || rendezvous_of(environment).has_value();
}

std::optional<Rendezvous> rendezvous_of(Environment const& environment) {
  std::string_view const address = text_of(environment, "MASTER_ADDR");
  auto const rank = first_number(environment, {"RANK"}), size = first_number(environment, {"WORLD_SIZE"});
  auto const port = first_number(environment, {"MASTER_PORT"});
  if (address.empty() || !rank || !size || !port) return std::nullopt;
  if (*size < 1 || *rank >= *size)
    throw InputError(fmt::format("environment variable RANK is {}: below WORLD_SIZE ({}) is allowed", *rank, *size));
  int const own_port = *port + (text_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0);
  if (own_port < 1 || own_port > 65535)
    throw InputError(fmt::format("environment variable MASTER_PORT is {}: 1 .. 65535 is allowed{}", *port,
                                 own_port == *port ? "" : ", and torchrun's store needs one port of these itself"));
  return Rendezvous{*rank, *size, std::string(address), own_port,
                    std::string(text_of(environment, "SHARDBENCH_SECRET"))};
}

int local_rank(Environment const& environment) {
  return first_number(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"})
      .value_or(0);
}

int local_size(Environment const& environment) {
  if (auto const size = first_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})) return *size;
  constexpr char const* slurm = "SLURM_STEP_TASKS_PER_NODE";
  if (auto const list = text_of(environment, slurm); !list.empty())
    return tasks_of_node(slurm, list, first_number(environment, {"SLURM_NODEID"}).value_or(0));
  return first_number(environment, {"LOCAL_WORLD_SIZE"}).value_or(1);
}

}  // namespace shardbench
