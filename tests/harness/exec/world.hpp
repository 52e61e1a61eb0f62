#pragma once
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/config/cut.hpp"

namespace shardbench::test {

/// All ranks of the job: one communicator for the whole test program.
inline Communicator& world() {
  static std::unique_ptr<Communicator> const all = make_mpi_communicator();
  return *all;
}

/// Every (dp, tp, pp) whose product is the number of ranks.
inline std::vector<Cut> all_products(std::int64_t ranks) {
  std::vector<Cut> cuts;
  for (std::int64_t dp = 1; dp <= ranks; ++dp)
    for (std::int64_t tp = 1; tp <= ranks / dp; ++tp) {
      if (ranks % (dp * tp) != 0) continue;
      Cut p;
      p.dp = dp, p.tp = tp, p.pp = ranks / (dp * tp);
      cuts.push_back(p);
    }
  return cuts;
}

}  // namespace shardbench::test
