#include "harness/planner/worker_threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace shardbench {

void for_each_of(std::size_t count, std::function<void(std::size_t, CostModel const&)> const& work,
                 CostModel const& model) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  auto const take_turns = [&] {
    CostModel const mine = model;
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i, mine);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  std::size_t const cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t t = 1; t < std::min(cores, count); ++t) threads.emplace_back(take_turns);
  take_turns();
  threads.clear();
  for (std::exception_ptr const& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace shardbench
