#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "bench/shardbench/commands.hpp"
#include "bench/shardbench/outputs.hpp"
#include "bench/shardbench/point_worker.hpp"
#include "bench/shardbench/sweep_points.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// SHARDBENCH_TEST_FAULT=crash@N|hang@N makes the point of index N end badly: tests of the supervisor need one that
/// does.
void fault_for_tests(std::size_t index) {
  char const* const text = std::getenv("SHARDBENCH_TEST_FAULT");
  if (!text) return;
  if (text == fmt::format("crash@{}", index)) std::abort();
  if (text == fmt::format("hang@{}", index)) pause();
}

}  // namespace

int worker_command(Arguments const& arguments) {
  std::ifstream file(arguments.option("points"));
  if (!file) throw InputError(fmt::format("--points: {} cannot be read", arguments.option("points")));
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
    if (job.first()) fault_for_tests(index);
    FinishedPoint const finished = finish_point(job, experiment, replay);
    if (job.first()) append_result(arguments.option("out"), finished.row, finished.ops);
    speak({.index = index,
           .done = true,
           .outcome = outcome_of(finished.row),
           .row = arguments.has("json") ? json_of(finished.row) : std::string()});
  }
  return 0;
}

}  // namespace shardbench
