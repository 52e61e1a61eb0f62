#include "harness/sharding/strategy.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    Strategy const strategy = parse_strategy(text, "fuzz.yaml");
    for (auto const& [role, placement] : strategy.weights) {
      bool known = false;
      for (WeightRole const& allowed : weight_roles()) known = known || allowed.name == role;
      fuzz::require(known, "only known weights are placed");
    }
  });
  return 0;
}
