#include "harness/comm/gpu_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Ranks and GPUs of a machine.
struct Machine {
  int ranks = 0;
  std::set<std::string> gpus;
};

void refuse_shared(std::string const& host, Machine const& machine) {
  throw IllegalConfig(
      fmt::format("ranks: {} ranks on {}, which has {} GPU{}: NCCL takes one rank a GPU (allowed: {}; or "
                  "--share-gpu, for the right numbers only)",
                  machine.ranks, host, machine.gpus.size(), machine.gpus.size() == 1 ? "" : "s", machine.gpus.size()));
}

}  // namespace

GpuChoice choose_gpu(std::vector<RankPlace> const& ranks, std::size_t rank, bool share) {
  std::map<std::string, Machine> machines;
  for (RankPlace const& place : ranks) {
    Machine& machine = machines[place.host];
    ++machine.ranks;
    machine.gpus.insert(place.gpus.begin(), place.gpus.end());
  }
  std::map<std::pair<std::string, std::string>, int> users;
  std::vector<std::size_t> choices;
  for (RankPlace const& place : ranks) {
    if (place.gpus.empty())
      throw IllegalConfig(fmt::format("device: rank {} sees no GPU on {}", choices.size(), place.host));
    auto const taken = [&](std::string const& gpu) { return users[{place.host, gpu}]; };
    auto const chosen = std::ranges::min_element(place.gpus, {}, taken);
    if (++users[{place.host, *chosen}] > 1 && !share) refuse_shared(place.host, machines[place.host]);
    choices.push_back(chosen - place.gpus.begin());
  }
  RankPlace const& mine = ranks.at(rank);
  return {static_cast<int>(choices[rank]), users[{mine.host, mine.gpus[choices[rank]]}]};
}

}  // namespace shardbench
