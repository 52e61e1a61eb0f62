#include "harness/config/experiment.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size,
                 [](std::string_view text) { fuzz::require(parse_bytes("size", text) >= 0, "no negative size"); });
  fuzz::try_read(data, size,
                 [](std::string_view text) { fuzz::require(!split_list("sizes", text).empty(), "an item"); });
  return 0;
}
