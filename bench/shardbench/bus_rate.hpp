#pragma once
#include <cstdint>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// busbw of one call of a communication op over `ranks` ranks, GB/s (harness/comm/bus_bandwidth.hpp).
double bus_rate(OpKind kind, std::int64_t ranks, double payload_bytes, double seconds);

}  // namespace shardbench
