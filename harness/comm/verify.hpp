#pragma once
#include <cstdint>
#include <string_view>

#include "harness/comm/communicator.hpp"

namespace shardbench {

/// What a rank is about to call, for comparison with its group.
struct CollectiveSignature {
  std::string_view kind;    ///< "all_reduce", ...; compared up to 31 characters
  std::uint64_t bytes = 0;  ///< payload; must be equal on all ranks (for an all-to-all of unequal blocks, pass 0)
  std::uint64_t group = 0;  ///< a name of the group that its ranks agree on, such as a hash of its rank list
  std::uint64_t order = 0;  ///< how many collectives this rank has made on the group
};

/// Compares the signature over `group`'s ranks before the call itself is made; throws Error on every rank naming the
/// first rank and field that differ from rank 0's, and both values. Gathers on `group`, so its Traffic grows: give it a
/// communicator of its own (split) over host memory when traffic is to be billed.
void verify_same_call(Communicator& group, CollectiveSignature const& signature);

}  // namespace shardbench
