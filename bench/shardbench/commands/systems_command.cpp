#include <fmt/format.h>

#include <algorithm>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/config/system_profile.hpp"
#include "harness/report/text.hpp"

namespace shardbench {
namespace {

std::string peak_text(DeviceProfile const& device, Dtype precision) {
  auto const found = device.peak_tflops.find(precision);
  return found == device.peak_tflops.end() ? "-" : fmt::format("{:g}", found->second);
}

std::string levels_text(std::vector<NetworkLevel> const& network) {
  std::string text;
  for (NetworkLevel const& level : network)
    text += fmt::format("{}{} {:g} GB/s{}", text.empty() ? "" : ", ", level.name, level.bandwidth_gb_per_s,
                        level.devices > 0 ? fmt::format(" in {}", level.devices) : "");
  return text;
}

}  // namespace

int systems_command(Arguments const&) {
  std::vector<std::vector<std::string>> rows{
      {"system", "bf16", "fp8", "memory GB", "GB/s", "network (a device, one direction)"}};
  for (std::string const& name : system_names()) {
    SystemProfile const s = load_system(name);
    rows.push_back({name, peak_text(s.device, Dtype::bf16), peak_text(s.device, Dtype::fp8),
                    fmt::format("{:g}", s.device.memory_gb), fmt::format("{:g}", s.device.memory_gb_per_s),
                    levels_text(s.network)});
  }
  for (std::string const& line : table_lines(rows)) fmt::print("{}\n", line);
  fmt::print(
      "\npeaks are dense TFLOP/s; every number's source is in bench/systems/NAME.yaml, and --system takes such a "
      "file\n\n");
  std::size_t width = 0;
  for (std::string const& name : stack_names()) width = std::max(width, name.size());
  for (std::string const& name : stack_names()) fmt::print("{:<{}}  {}\n", name, width, load_stack(name).description);
  return 0;
}

}  // namespace shardbench
