#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/config/experiment.hpp"
#include "harness/config/axis.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

/// A set of ranks that communicate, and the axis whose column their bytes go to. Every rank of the job has the same
/// list of groups in the same order; a rank outside one has no members there.
struct Group {
  std::string name;
  Axis axis = Axis::tp;
  std::vector<std::int64_t> members;  ///< global ranks in group order; empty when this rank takes no part
};

using GroupId = Id<Group>;

/// The communication groups of `rank`, in the order every rank of the job agrees on.
IdVector<Group> communication_groups(Experiment const& experiment, std::int64_t rank);

/// One rank for each pipeline stage (tensor, context and data coordinates 0): the ranks of a stage do the same work.
std::vector<std::int64_t> representative_ranks(Experiment const& experiment);

}  // namespace shardbench
