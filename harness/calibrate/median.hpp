#pragma once
#include <utility>
#include <vector>

#include "harness/record/statistics.hpp"

namespace shardbench {

/// The median; 0 of none.
inline double median(std::vector<double> values) { return values.empty() ? 0 : summarize(std::move(values)).median; }

}  // namespace shardbench
