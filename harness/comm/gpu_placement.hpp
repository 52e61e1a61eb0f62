#pragma once
#include <string>
#include <vector>

namespace shardbench {

/// Where a rank runs and which GPUs it sees there, by names that no other GPU has, in the order of their numbers.
struct RankPlace {
  std::string host;
  std::vector<std::string> gpus;
};

/// The GPU that a rank takes.
struct GpuChoice {
  int ordinal = 0;  ///< among those it sees
  int sharers = 1;  ///< ranks on it, this one included
};

/// Each rank takes, in rank order, the first of the GPUs it sees that fewest ranks have taken: whether a launcher shows
/// a rank all GPUs of the machine or its own only, nobody shares one that need not. Throws IllegalConfig, alike for
/// every `rank`, where one sees none, or where two would share one and `share` is not set: with both numbers.
GpuChoice choose_gpu(std::vector<RankPlace> const& ranks, std::size_t rank, bool share);

}  // namespace shardbench
