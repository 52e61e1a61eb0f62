#pragma once
#include <string>

#include "harness/config/experiment.hpp"
#include "harness/config/system_profile.hpp"

namespace shardbench {

/// "tp 8, pp 16, dp 32, vpp 6, sp, mb 1": what differs from one rank, and the microbatch.
std::string cut_text(Experiment const& experiment);

/// Flags of Megatron-LM that mean the same cut, and the overlap of reductions that the stack has; in brackets what it
/// has no flag for, or refuses.
std::string megatron_flags(Experiment const& experiment, SoftwareStack const& stack);
/// Options of torchtitan that mean the same cut; in brackets what it has no option for, refuses or
/// does otherwise.
std::string torchtitan_flags(Experiment const& experiment);

}  // namespace shardbench
