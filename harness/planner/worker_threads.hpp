#pragma once
#include <cstddef>
#include <functional>

#include "harness/simulate/cost_model.hpp"

namespace shardbench {

/// Calls work(i, model) for every i below `count`, on all cores, each thread with a copy of `model`. What `work` throws
/// for the lowest i is thrown again once all threads are done.
void for_each_of(std::size_t count, std::function<void(std::size_t, CostModel const&)> const& work,
                 CostModel const& model);

}  // namespace shardbench
