#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/shardbench/arguments.hpp"
#include "bench/shardbench/launcher.hpp"
#include "kernels/core/error.hpp"

namespace {

/// One line on standard error, from one rank of a job.
void complain(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  if (shardbench::speaks_for_job()) fmt::print(stderr, "shardbench: {}\n", text);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace shardbench;
  try {
    // What is asked for
    CommandLine const line = parse_command_line(argc, argv);
    if (!line.help.empty()) {
      fmt::print("{}", line.help);
      return 0;
    }
    // Who does it
    CommandInfo const& command = find_command(line.arguments.command);
    // Do it
    int const exit_code = command.run(line.arguments);
    std::fflush(stdout);
    return exit_code;
  } catch (InputError const& error) {
    complain(error.what());
    return 2;
  } catch (std::exception const& error) {
    complain(error.what());
    return 1;
  }
}
