#include <algorithm>

#include "bench/shardbench/calibrate_logs.hpp"
#include "bench/shardbench/commands.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

int calibrate_command(Arguments const& arguments) {
  bool const logs = arguments.lists.contains("nccl-log"), topologies = arguments.lists.contains("topo");
  if (!logs && !topologies) throw InputError("calibrate: nothing to do; give --nccl-log FILE... or --topo FILE...");
  int code = 0;
  if (logs) code = std::max(code, report_nccl_logs(arguments.lists.find("nccl-log")->second, arguments.option("link")));
  if (topologies) report_topologies(arguments.lists.find("topo")->second);
  return code;
}

}  // namespace shardbench
