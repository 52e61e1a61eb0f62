#include "harness/program/analysis/shared_places.hpp"

#include <algorithm>
#include <tuple>

namespace shardbench {

namespace {

/// [a][b]: the two are alive at the same time at least once.
std::vector<std::vector<bool>> conflicts_of(std::vector<SharedBlock> const& blocks) {
  std::vector<std::vector<bool>> conflicts(blocks.size(), std::vector<bool>(blocks.size(), false));
  std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>> spans;  // first, last, block
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (RunInterval const& t : blocks[i].taken) spans.emplace_back(t.first, t.last, i);
  std::ranges::sort(spans);
  std::vector<std::pair<std::int64_t, std::size_t>> alive;  // last, block
  for (auto const& [first, last, block] : spans) {
    std::erase_if(alive, [begin = first](auto const& a) { return a.first < begin; });
    for (auto const& other : alive) conflicts[block][other.second] = conflicts[other.second][block] = true;
    alive.emplace_back(last, block);
  }
  return conflicts;
}

}  // namespace

std::vector<std::vector<TensorId>> share_places(std::vector<SharedBlock> const& blocks) {
  auto const conflicts = conflicts_of(blocks);
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto const fits = [&](std::vector<std::size_t> const& set) {
      return std::ranges::none_of(set, [&](std::size_t other) { return conflicts[i][other]; });
    };
    auto const it = std::ranges::find_if(sets, fits);
    if (it == sets.end())
      sets.push_back({i});
    else
      it->push_back(i);
  }
  std::vector<std::vector<TensorId>> result;
  for (auto const& set : sets) {
    result.emplace_back();
    for (std::size_t const i : set) result.back().push_back(blocks[i].id);
  }
  return result;
}

}  // namespace shardbench
