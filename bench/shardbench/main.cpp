#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "bench/shardbench/cli/arguments.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace {

/// One line on standard error, from one rank of a job.
void complain(std::string const& text) {
  if (shardbench::speaks_for_job()) fmt::print(stderr, "shardbench: {}\n", shardbench::one_line(text));
}

int lost_output(std::string const& why) {
  complain("cannot write to standard output: " + why);
  return 1;
}

/// What was printed has left the program: a full disk shows only when the last of it is written. `exit_code` if so.
int flushed(int exit_code) {
  bool const failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed_before) return exit_code;
  return lost_output(std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace shardbench;
  try {
    // What is asked for
    CommandLine const line = parse_command_line(argc, argv);
    if (!line.help.empty()) {
      fmt::print("{}", line.help);
      return flushed(0);
    }
    // Who does it
    CommandInfo const& command = find_command(line.arguments.command);
    // Do it
    return flushed(command.run(line.arguments));
  } catch (InputError const& error) {
    complain(error.what());
    return 2;
  } catch (std::exception const& error) {
    auto const* const failed_call = dynamic_cast<std::system_error const*>(&error);
    if (failed_call && std::ferror(stdout) != 0) return lost_output(failed_call->code().message());
    complain(error.what());
    return 1;
  }
}
