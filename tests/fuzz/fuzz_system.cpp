#include "harness/config/system_profile.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    SystemProfile const system = parse_system_profile(text, "system.yaml");
    fuzz::require(!system.network.empty() && !system.device.peak_tflops.empty(), "a profile has a peak and a network");
  });
  fuzz::try_read(data, size, [](std::string_view text) {
    SoftwareStack const stack = parse_software_stack(text, "stack.yaml");
    fuzz::require(stack.attention_factor > 0 && stack.attention_efficiency >= 0 && stack.gemm_derate > 0,
                  "rates of a stack are rates");
  });
  return 0;
}
