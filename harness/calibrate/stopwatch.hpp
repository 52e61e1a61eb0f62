#pragma once
#include <functional>

#include "harness/calibrate/machine.hpp"

namespace shardbench {

/// Median time of `work` on the stream in microseconds, mean over the ranks, which all work at once. Repeats what is
/// short, so that the clock and the launch of the batch do not count. Collective.
double time_us(Stream& stream, RankAgreement& agree, std::function<void()> const& work);

}  // namespace shardbench
