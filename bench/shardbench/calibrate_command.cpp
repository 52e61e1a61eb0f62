#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/calibrate_logs.hpp"
#include "bench/shardbench/calibrate_machine.hpp"
#include "bench/shardbench/commands.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

int calibrate_command(Arguments const& arguments) {
  bool const logs = arguments.lists.contains("nccl-log"), topologies = arguments.lists.contains("topo");
  if (!logs && !topologies) {
    if (arguments.has("system") || arguments.has("link"))
      throw InputError("calibrate: --system and --link go with --nccl-log");
    if (!arguments.has("out"))
      throw InputError("calibrate: nothing to do; give --out FILE.yaml, --nccl-log FILE... or --topo FILE...");
    return calibrate_machine(arguments);
  }
  if (!arguments.fields.empty())
    throw InputError(
        fmt::format("--{}: not with --nccl-log or --topo, which measure nothing", arguments.fields.front().first));
  int code = 0;
  if (logs) code = std::max(code, report_nccl_logs(arguments));
  if (topologies) report_topologies(arguments.lists.find("topo")->second);
  return code;
}

}  // namespace shardbench
