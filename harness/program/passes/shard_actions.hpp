#pragma once
#include <vector>

#include "harness/config/cut.hpp"
#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// Adds a pipeline action as those of its units [begin, end): each is gathered while the one before computes, freed
/// after it, and reduced after its weight gradients.
void gather_and_free(Action const& action, std::int32_t begin, std::int32_t end, std::vector<Action>& out);

/// Where weights stay whole, the first gather of a unit and its last free remain; of kept gradients one reduction.
void keep_whole(std::vector<Action>& actions, ZeroKeep keep);

/// Issues each reduction just before the next pass, behind the gathers that this pass waits for, and has what it made
/// added to the shard (of units with adds[unit]) after that pass, so that the two run side by side. `cut_by_pass`:
/// gradients are cut in the pass that makes them, not by an action of their own.
void reduce_beside_next_pass(std::vector<Action>& actions, std::vector<bool> const& adds, bool cut_by_pass);

}  // namespace shardbench
