#include "harness/schedule/schedule.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    std::string const written = to_text(parse_schedule(text));
    fuzz::require(to_text(parse_schedule(written)) == written, "what is written reads back the same");
  });
  return 0;
}
