#include "harness/calibrate/topology.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    Topology const t = parse_topology(text, "fuzz");
    fuzz::require(!t.devices.empty() && t.links.size() == t.devices.size(), "the matrix is square");
    std::size_t grouped = 0;
    for (auto const& group : t.groups(2)) grouped += group.size();
    fuzz::require(grouped == 0 || grouped == static_cast<std::size_t>(t.gpus()), "groups hold every GPU once");
  });
  fuzz::try_read(data, size,
                 [](std::string_view text) { fuzz::require(count_cpus(text).value_or(1) > 0, "a list has a CPU"); });
  return 0;
}
