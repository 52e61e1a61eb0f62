#include <fmt/format.h>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/sharding/strategy.hpp"

namespace shardbench {

int strategies_command(Arguments const&) {
  std::size_t name = 0, flag = 0;
  for (StrategyInfo const& row : strategy_catalog()) {
    name = std::max(name, row.name.size());
    flag = std::max(flag, row.flag.size());
  }
  for (StrategyInfo const& row : strategy_catalog())
    fmt::print("{:<{}}  {:<{}}  {:<7}  {} [{}]\n", row.name, name, row.flag, flag, row.state, row.what, row.source);
  fmt::print(
      "\nruns: executes, checked against the unsharded step; counted: describe and simulate only; not yet: refused.\n");
  fmt::print("\nWeight roles that a --strategy file may place:\n");
  for (WeightRole const& role : weight_roles()) fmt::print("  {:<18} {}\n", role.name, role.what);
  return 0;
}

}  // namespace shardbench
