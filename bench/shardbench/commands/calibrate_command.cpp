#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/commands/calibrate_logs.hpp"
#include "bench/shardbench/commands/calibrate_machine.hpp"
#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

int calibrate_command(Arguments const& arguments) {
  bool const logs = arguments.lists.contains("nccl-log"), topologies = arguments.lists.contains("topo");
  if (!logs && !topologies) {
    for (char const* const flag : {"system", "link"})
      if (arguments.has(flag))
        throw InputError(fmt::format("--{}: {} given; only with --nccl-log", flag, in_quotes(arguments.option(flag))));
    if (!arguments.has("out"))
      throw InputError("calibrate: nothing to do; give --out FILE.yaml, --nccl-log FILE... or --topo FILE...");
    return calibrate_machine(arguments);
  }
  if (!arguments.mpirun_arguments.empty())
    throw InputError("--mpirun-arg: not with --nccl-log or --topo, which start no ranks");
  if (!logs)
    for (char const* const flag : {"out", "system", "link"})
      if (arguments.has(flag))
        throw InputError(fmt::format("--{}: {} given; only with --nccl-log, not with --topo alone", flag,
                                     in_quotes(arguments.option(flag))));
  if (!arguments.fields.empty())
    throw InputError(
        fmt::format("--{}: not with --nccl-log or --topo, which measure nothing", arguments.fields.front().first));
  int code = 0;
  if (logs) code = std::max(code, report_nccl_logs(arguments));
  if (topologies) report_topologies(arguments.lists.find("topo")->second);
  return code;
}

}  // namespace shardbench
