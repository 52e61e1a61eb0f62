#include "harness/config/cut.hpp"
#include "harness/config/model_config.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    ModelConfig const model = parse_model_config(text, "config.json");
    ParameterCount const count = count_parameters(model);
    fuzz::require(count.active > 0 && count.active <= count.total, "a token meets some and at most all parameters");
    fuzz::require(count.total == count.embedding + count.head + count.blocks + count.norms, "the parts make the total");
    Cut parallel;
    for (std::int64_t const tp : legal_tp(model, 16)) {
      parallel.tp = tp;
      fuzz::require(illegal_reasons(model, parallel).empty(), "a legal tp is legal");
    }
  });
  return 0;
}
