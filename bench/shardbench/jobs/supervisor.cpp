#include "bench/shardbench/jobs/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "bench/shardbench/jobs/point_worker.hpp"
#include "harness/record/fingerprint.hpp"
#include "harness/report/descriptor.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double start_seconds = 60;  // what a job may take to start, on top of the first point's time

/// The list of points of a job, removed with this object. It stays locked while its supervisor lives, however that
/// ends: a worker that finds it free has been left alone.
class PointFile {
 public:
  PointFile(std::vector<SweepPoint> const& points, std::vector<std::size_t> const& indices) {
    std::string name = (std::filesystem::temp_directory_path() / "shardbench-points-XXXXXX").string();
    lock_.emplace(mkostemp(name.data(), O_CLOEXEC));
    VALIDATE(lock_->get() >= 0 && flock(lock_->get(), LOCK_EX) == 0, fmt::format("{} cannot be made", name));
    path_ = name;
    std::string lines;
    for (std::size_t const index : indices) lines += line_of_point(index, points[index].experiment) + '\n';
    write_text_file(path_, lines);
  }
  ~PointFile() { unlink(path_.c_str()); }
  std::string const& path() const { return path_; }

 private:
  std::optional<Descriptor> lock_;
  std::string path_;
};

/// Points of one kind can run in one job: NCCL reads its options once.
auto kind_of(Experiment const& e) { return std::tie(e.ranks, e.nccl_algo, e.nccl_proto, e.nccl_channels, e.share_gpu); }

}  // namespace

Supervisor::Supervisor(std::vector<SweepPoint> const& points, SupervisorOptions options, Begin begin, End end)
    : points_(points), options_(std::move(options)), begin_(std::move(begin)), end_(std::move(end)) {}

bool Supervisor::run(std::vector<std::size_t> waiting) {
  bool const replays = !options_.replay.empty();
  while (!waiting.empty()) {
    Experiment const& first = points_[waiting.front()].experiment;
    auto const others = std::ranges::stable_partition(
        waiting, [&](std::size_t i) { return replays || kind_of(points_[i].experiment) == kind_of(first); });
    std::vector<std::size_t> group(waiting.begin(), others.begin());
    waiting.erase(waiting.begin(), others.begin());
    while (!group.empty())
      if (!run_job(replays ? 1 : first.ranks, group)) return false;
  }
  return true;
}

bool Supervisor::run_job(std::int64_t ranks, std::vector<std::size_t>& waiting) {
  PointFile const file(points_, waiting);
  std::vector<std::string> words{"worker", "--points", file.path()};
  if (!options_.out.empty()) words.insert(words.end(), {"--out", options_.out});
  if (options_.json) words.emplace_back("--json");
  words.insert(words.end(), options_.replay.begin(), options_.replay.end());
  ChildJob job(launch_of(ranks, options_.mpirun_arguments, words));
  std::optional<std::size_t> current;
  double patience = options_.timeout_seconds + start_seconds;
  for (std::string line;;) {
    switch (job.next(patience, line)) {
      case ChildJob::Event::line: {
        auto const message = parse_worker_line(line);
        if (!message || std::ranges::find(waiting, message->index) == waiting.end()) break;
        current = message->done ? std::nullopt : std::optional(message->index);
        patience = options_.timeout_seconds;
        if (!message->done) begin_(message->index);
        if (!message->done) break;
        std::erase(waiting, message->index);
        end_(message->index, message->outcome, message->row);
        break;
      }
      case ChildJob::Event::interrupted:
        job.stop();
        return false;
      case ChildJob::Event::timeout: {
        job.stop();
        std::size_t const late = current.value_or(waiting.empty() ? 0 : waiting.front());
        if (std::erase(waiting, late) > 0)
          give_up(late, Outcome::timeout, fmt::format("not done after {:g} s (--timeout)", options_.timeout_seconds));
        return true;
      }
      case ChildJob::Event::ended: {
        std::string const problem = job.problem();
        if (current) {
          std::erase(waiting, *current);
          give_up(*current, Outcome::failed, problem.empty() ? "the job ended without a word" : problem);
        } else if (!waiting.empty()) {
          throw Error(fmt::format("a job of {} ranks ended before its next configuration began: {}", ranks,
                                  problem.empty() ? "exit status 0" : problem));
        }
        return true;
      }
    }
  }
}

void Supervisor::give_up(std::size_t index, Outcome outcome, std::string const& reason) {
  ReportRow row = start_row(points_[index].experiment, options_.replay.empty() ? Source::measured : Source::replayed);
  row.outcome = outcome;
  row.command = points_[index].command;
  row.reason = reason + (row.reason.empty() ? "" : "; " + row.reason);
  // No rank is left to ask for its MPI and BLAS.
  set_fingerprint(row, take_fingerprint("", ""), row.experiment.ranks);
  append_result(options_.out, row, {});
  end_(index, outcome_of(row), options_.json ? json_of(row) : std::string());
}

}  // namespace shardbench
