#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/config/knob.hpp"
#include "harness/sharding/strategy.hpp"

namespace shardbench {

int strategies_command(Arguments const&) {
  std::vector<KnobSource> const lines = knob_sources();
  std::size_t name = 0, usage = 0;
  for (KnobSource const& line : lines)
    name = std::max(name, line.name.size()), usage = std::max(usage, line.usage.size());
  for (KnobSource const& line : lines)
    fmt::print("{:<{}}  {:<{}}  runs     {} [{}]\n", line.name, name, line.usage, usage, line.what, line.source);
  fmt::print(
      "\nruns: executes, checked against the unsharded step; counted: describe and simulate only; not yet: refused.\n");
  fmt::print("\nWeight roles that a --strategy file may place:\n");
  for (WeightRole const& role : weight_roles()) fmt::print("  {:<18} {}\n", role.name, role.what);
  return 0;
}

}  // namespace shardbench
