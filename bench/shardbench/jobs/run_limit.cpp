#include "bench/shardbench/jobs/run_limit.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "harness/comm/communicator.hpp"
#include "harness/config/field_text.hpp"

namespace shardbench {

JobOptions job_options(Arguments const& arguments) { return {arguments.has("insecure-rendezvous")}; }

RunLimit::RunLimit(Arguments const& arguments) {
  if (!arguments.has("timeout")) return;
  double const seconds = parse_number("timeout", arguments.option("timeout"), 0.001, 1e9);
  watcher_ = std::thread([this, seconds] { watch(seconds); });
}

RunLimit::~RunLimit() {
  {
    std::lock_guard const lock(mutex_);
    done_ = true;
  }
  done_changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void RunLimit::watch(double seconds) {
  std::unique_lock lock(mutex_);
  if (done_changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done_; })) return;
  fmt::print(stderr, "shardbench: not done after {:g} s (--timeout)\n", seconds);
  std::fflush(stderr);
  MpiProcess::abort(1);
}

}  // namespace shardbench
