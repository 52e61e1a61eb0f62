#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/point_worker.hpp"
#include "bench/shardbench/jobs/sweep_points.hpp"
#include "harness/report/descriptor.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// SHARDBENCH_TEST_FAULT=crash@N|hang@N|orphan@N makes the point of index N end badly: tests of the supervisor need one
/// that does. orphan: it goes on when its supervisor is killed, which is to happen meanwhile.
void fault_for_tests(std::size_t index, pid_t supervisor) {
  char const* const text = std::getenv("SHARDBENCH_TEST_FAULT");
  if (!text) return;
  if (text == fmt::format("crash@{}", index)) std::abort();
  if (text == fmt::format("hang@{}", index)) pause();
  if (text != fmt::format("orphan@{}", index)) return;
  prctl(PR_SET_PDEATHSIG, 0);
  while (getppid() == supervisor) usleep(10000);
}

/// The file of points stays locked while its supervisor lives.
bool supervisor_gone(Descriptor const& points) {
  return points.get() >= 0 && flock(points.get(), LOCK_SH | LOCK_NB) == 0;
}

}  // namespace

int worker_command(Arguments const& arguments) {
  std::ifstream file(arguments.option("points"));
  if (!file) throw InputError(fmt::format("--points: {} cannot be read", arguments.option("points")));
  Descriptor const points(open(arguments.option("points").c_str(), O_RDONLY | O_CLOEXEC));
  pid_t const parent = getppid();
  Job job;
  std::optional<ReplayOptions> const replay = replay_options(arguments);
  for (std::string line; std::getline(file, line);) {
    auto const [index, experiment] = point_of_line(line);
    auto const speak = [&](WorkerMessage message) {
      message.index = index;
      if (!job.first()) return;
      fmt::print("{}\n", to_line(message));
      std::fflush(stdout);
    };
    speak({});
    if (job.first()) fault_for_tests(index, parent);
    FinishedPoint const finished = finish_point(job, experiment, replay);
    // Whoever resumes the sweep has read the file already, and measures this point again: its row would be there twice.
    if (job.first() && supervisor_gone(points))
      throw Error("the sweep that started this job is gone; its row is not written");
    if (job.first()) append_result(arguments.option("out"), finished.row, finished.ops);
    speak({.index = index,
           .done = true,
           .outcome = outcome_of(finished.row),
           .row = arguments.has("json") ? json_of(finished.row) : std::string()});
  }
  return 0;
}

}  // namespace shardbench
