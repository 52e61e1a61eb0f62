#include "harness/config/recompute_modules.hpp"
#include "harness/config/stage_layout.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    std::vector<LayoutPiece> const pieces = parse_pipeline_layout(text);
    fuzz::require(pieces.front().embedding && pieces.back().head, "a layout begins with E and ends with L");
  });
  fuzz::try_read(data, size, [](std::string_view text) {
    RecomputeModules const modules = parse_recompute_modules("recompute-modules", text);
    if (!modules.empty())
      fuzz::require(parse_recompute_modules("recompute-modules", to_string(modules)) == modules,
                    "what is written reads back the same");
  });
  return 0;
}
