#include <algorithm>

#include "harness/config/experiment.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

namespace {

/// A model from a path would make the fuzzer read files; everything else is resolved.
void resolve_preset(Experiment experiment) {
  for (std::string const& name : preset_names())
    if (name == experiment.model_name) return resolve(experiment);
}

void set_line(Experiment& experiment, std::string_view line) {
  std::string_view const flag = line.substr(0, line.find(' '));
  set_field(experiment, flag, flag.size() < line.size() ? line.substr(flag.size() + 1) : "");
  std::string const text = field_text(experiment, flag);
  Experiment copy;
  set_field(copy, flag, text);
  fuzz::require(field_text(copy, flag) == text, "a field reads back its own text");
}

}  // namespace

/// The input is lines of "flag value", as on a command line.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  Experiment experiment;
  for (std::size_t start = 0; start < size;) {
    std::size_t const end = static_cast<std::size_t>(std::find(data + start, data + size, '\n') - data);
    fuzz::try_read(data + start, end - start, [&](std::string_view line) { set_line(experiment, line); });
    start = end + 1;
  }
  fuzz::require(!command_flags(experiment).empty(), "every experiment has a command");
  fuzz::try_read(data, size, [&](std::string_view) { resolve_preset(experiment); });
  return 0;
}
