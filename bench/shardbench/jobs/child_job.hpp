#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/shardbench/jobs/launcher.hpp"

namespace shardbench {

/// A program started in a process group of its own, its output read line by line.
class ChildJob {
 public:
  enum class Event { line, timeout, interrupted, ended };

  /// Throws Error when it cannot be started.
  explicit ChildJob(Launch const& launch);
  ~ChildJob();
  ChildJob(ChildJob const&) = delete;
  ChildJob& operator=(ChildJob const&) = delete;

  /// Waits for the next line of standard output (then in `line`), at most until `seconds` have passed.
  Event next(double seconds, std::string& line);
  /// Asks the job to end, and after some seconds makes it.
  void stop();
  /// Empty for exit code 0; else how it ended and what it said last on standard error.
  std::string problem() const;

 private:
  void read_from(int& fd, std::string& text);
  void reap(bool wait);

  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::string out_text_, err_text_;
  std::optional<int> status_;
};

/// Throws InputError where no mpirun would take the arguments that it was given: one rank needs none, and mpirun itself
/// is asked, with a program that does nothing.
void check_mpirun_arguments(std::vector<std::string> const& arguments, std::int64_t ranks);

/// SIGINT and SIGTERM set a flag from here on; interrupted() reads it.
void watch_for_interrupt();
bool interrupted();

}  // namespace shardbench
