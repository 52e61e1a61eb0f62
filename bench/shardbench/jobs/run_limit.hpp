#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bench/shardbench/cli/arguments.hpp"
#include "bench/shardbench/jobs/job.hpp"

namespace shardbench {

/// What the command line says of how to join a job.
JobOptions job_options(Arguments const& arguments);

/// Ends this process, and with MPI the job, when it lives longer than --timeout says: a rank that stands still never
/// comes back to see the clock.
class RunLimit {
 public:
  /// No limit without --timeout. Throws InputError.
  explicit RunLimit(Arguments const& arguments);
  ~RunLimit();
  RunLimit(RunLimit const&) = delete;
  RunLimit& operator=(RunLimit const&) = delete;

 private:
  void watch(double seconds);

  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread watcher_;
};

}  // namespace shardbench
