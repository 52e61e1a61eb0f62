#include "harness/config/experiment.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    SweepSpec const spec = parse_sweep_spec(text, "spec.yaml");
    std::size_t points = 1;
    for (auto const& [flag, values] : spec.lists.of) points *= values.size();
    if (points <= 64) fuzz::require(expand(spec.base, spec.lists).size() == points, "the sweep is the cross product");
  });
  return 0;
}
