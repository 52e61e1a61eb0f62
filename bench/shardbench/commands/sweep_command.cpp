#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/cli/experiment_of.hpp"
#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/report_page.hpp"
#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/point_worker.hpp"
#include "bench/shardbench/jobs/progress.hpp"
#include "bench/shardbench/jobs/replay_point.hpp"
#include "bench/shardbench/jobs/run_limit.hpp"
#include "bench/shardbench/jobs/supervisor.hpp"
#include "bench/shardbench/jobs/sweep_summary.hpp"
#include "harness/comm/launch_env.hpp"
#include "harness/config/field_text.hpp"
#include "harness/record/fingerprint.hpp"
#include "harness/report/csv.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench {
namespace {

/// Commands that already have a row in the file.
std::set<std::string> commands_in(std::string const& path) {
  std::set<std::string> commands;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) || std::filesystem::file_size(path, ignored) == 0) return commands;
  CsvTable const table = read_csv(path);
  std::size_t const column = table.column("command");
  for (CsvRecord const& row : table.rows) commands.insert(row[column]);
  return commands;
}

/// A sweep as it goes: its points, what became of them, and where that is told.
class Sweep {
 public:
  explicit Sweep(Arguments const& arguments)
      : arguments_(arguments),
        out_(arguments.option("out")),
        json_(arguments.has("json")),
        human_(json_ ? stderr : stdout),
        points_(sweep_points(arguments)),
        replay_(replay_options(arguments)) {
    if (replay_ && launched_as_job()) throw InputError("--source replayed: runs as one process, not under a launcher");
    for (SweepPoint& point : points_)
      if (replay_) point.command += fmt::format(" {}", fmt::join(replay_->words(), " "));
    if (arguments.has("timeout"))
      timeout_seconds_ = parse_number("timeout", arguments.option("timeout"), 0.001, number_limit);
    for (SweepPoint const& point : points_)
      if (point.skipped.empty()) check_device(point.experiment);
    outcomes_.resize(points_.size());
    rows_.resize(points_.size());
    done_before_.resize(points_.size());
    if (arguments.has("resume")) leave_out_done();
    // One process stands for all ranks, its values mean nothing and it takes what times it needs.
    for (SweepPoint const& point : points_)
      if (replay_) refuse_flags_of_runs(point.experiment);
  }

  /// Of the points that are legal.
  std::int64_t most_ranks() const {
    std::int64_t most = 0;
    for (SweepPoint const& point : points_)
      if (point.skipped.empty()) most = std::max(most, point.experiment.ranks);
    return replay_ ? 1 : most;
  }

  /// Points that are to run, by index; the illegal ones get their rows here.
  std::vector<std::size_t> start(bool writes) {
    std::vector<std::size_t> runnable;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (done_before_[i]) continue;
      if (points_[i].skipped.empty())
        runnable.push_back(i);
      else
        skip(i, writes);
    }
    return runnable;
  }

  /// Of this sweep or an earlier one, in --out.
  bool has_rows() const { return !commands_in(out_).empty(); }

  int supervise() {
    std::vector<std::size_t> const runnable = start(true);
    announce(runnable.size());
    Progress progress(human_, runnable.size());
    SupervisorOptions options{out_, json_, timeout_seconds_, arguments_.mpirun_arguments,
                              replay_ ? replay_->words() : std::vector<std::string>()};
    Supervisor supervisor(
        points_, std::move(options), [&](std::size_t i) { progress.begin(points_[i].name); },
        [&](std::size_t i, PointOutcome const& outcome, std::string const& row) {
          set(i, outcome, row);
          progress.end(points_[i].name, outcome);
        });
    watch_for_interrupt();
    bool const whole = supervisor.run(runnable);
    progress.finish();
    if (!whole) print_interrupted();
    int const code = finish(whole);
    return whole ? code : 1;
  }

  /// Under mpirun or srun: every rank walks through the points, and nobody can start a job again.
  int join() {
    Job job(job_options(arguments_));
    std::int64_t const size = job.world().size();
    for (SweepPoint& point : points_)
      if (point.skipped.empty() && point.experiment.ranks != size)
        point.skipped = fmt::format("uses {}, the launcher started {}", counted(point.experiment.ranks, "rank"), size);
    share_done_before(job);
    std::vector<std::size_t> const runnable = start(job.first());
    if (job.first()) announce(runnable.size());
    Progress progress(human_, runnable.size());
    for (std::size_t const i : runnable) {
      FinishedPoint const finished = finish_point(job, points_[i].experiment);
      set(i, outcome_of(finished.row), json_ ? json_of(finished.row) : std::string());
      if (!job.first()) continue;
      append_result(out_, finished.row, finished.ops);
      progress.end(points_[i].name, outcomes_[i].value());
    }
    return job.first() ? finish(true) : exit_code();
  }

 private:
  void leave_out_done() {
    std::set<std::string> const commands = commands_in(out_);
    for (std::size_t i = 0; i < points_.size(); ++i) done_before_[i] = commands.contains(points_[i].command);
  }

  /// Rank 0 has read the file, others may have seen it half a sweep later.
  void share_done_before(Job& job) {
    std::string flags;
    for (bool const done : done_before_) flags += done ? '1' : '0';
    flags = job.from_first(flags);
    for (std::size_t i = 0; i < points_.size(); ++i) done_before_[i] = flags[i] == '1';
  }

  void set(std::size_t i, PointOutcome const& outcome, std::string const& row) {
    outcomes_[i] = outcome;
    rows_[i] = row;
  }

  void skip(std::size_t i, bool writes) {
    ReportRow row = start_row(points_[i].experiment, replay_ ? Source::replayed : Source::measured);
    row.outcome = Outcome::skipped;
    row.reason = points_[i].skipped;
    row.command = points_[i].command;
    if (!fingerprint_) fingerprint_ = take_fingerprint(blas_description(), MpiProcess::library_version());
    set_fingerprint(row, *fingerprint_, row.experiment.ranks);
    row.ranks_per_core.reset();  // nothing ran
    if (writes) append_result(out_, row, {});
    set(i, outcome_of(row), json_ ? json_of(row) : std::string());
  }

  void announce(std::size_t runnable) const {
    auto const done = std::ranges::count(done_before_, true);
    fmt::print(human_, "{}: {} to run, {} not legal here{}\n", counted(points_.size(), "point"), runnable,
               points_.size() - runnable - done, done > 0 ? fmt::format(", {} already in {}", done, out_) : "");
    std::fflush(human_);
    print_notes();
  }

  /// What rows say as remarks, once for all points.
  void print_notes() const {
    note_default_model(points_.front().experiment);
    std::map<std::string, std::size_t> notes;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (points_[i].skipped.empty() && !done_before_[i])
        for (std::string const& line : warnings(points_[i].experiment)) ++notes[line];
    for (auto const& [line, count] : notes)
      fmt::print(stderr, "shardbench: note: {} ({})\n", line, counted(count, "point"));
  }

  int exit_code() const {
    return std::ranges::any_of(
        outcomes_, [](auto const& o) { return o && o->outcome != Outcome::passed && o->outcome != Outcome::skipped; });
  }

  /// `whole`: not interrupted.
  int finish(bool whole) const {
    if (json_) {
      auto told = std::views::filter(rows_, [](std::string const& row) { return !row.empty(); });
      fmt::print("[{}]\n", fmt::join(told, ",\n"));
    } else {
      print_table();
    }
    print_counts(whole);
    return exit_code();
  }

  void print_table() const {
    for (auto const& lines : {ran_lines(points_, outcomes_), reason_lines(points_, outcomes_)}) {
      if (!lines.empty()) fmt::print("\n");
      for (std::string const& line : lines) fmt::print("{}\n", line);
    }
  }

  void print_counts(bool whole) const {
    std::string const counts = outcome_counts(outcomes_);
    fmt::print(human_, "\n{}{}\n",
               !counts.empty() ? counts
               : whole         ? "nothing to do"
                               : "no configuration ended",
               has_rows() ? fmt::format("; rows in {}", out_) : "");
  }

  void print_interrupted() const {
    char const* const kept = has_rows()     ? "the rows so far are kept, --resume goes on from there"
                             : out_.empty() ? "rows were not kept, which --out does"
                                            : "before the first row, so that there is none to --resume from";
    fmt::print(human_, "interrupted: {}\n", kept);
  }

  Arguments const& arguments_;
  std::string out_;
  bool json_;
  std::FILE* human_;
  double timeout_seconds_ = 300;
  std::vector<SweepPoint> points_;
  std::optional<ReplayOptions> replay_;
  std::vector<bool> done_before_;
  PointOutcomes outcomes_;
  std::vector<std::string> rows_;  ///< JSON, when asked for
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace

int sweep_command(Arguments const& arguments) {
  if (arguments.has("resume") && !arguments.has("out"))
    throw InputError("--resume: needs --out, the file to go on from");
  if (arguments.has("report") && !arguments.has("out"))
    throw InputError("--report: needs --out, the file of the rows it shows");
  ReportPage page;
  if (speaks_for_job()) {
    check_outputs(arguments.option("out"));
    page = ReportPage(arguments);
  }
  Sweep sweep(arguments);
  if (!launched_as_job()) check_mpirun_arguments(arguments.mpirun_arguments, sweep.most_ranks());
  int const code = launched_as_job() ? sweep.join() : sweep.supervise();
  if (sweep.has_rows()) page.write(std::vector<std::string>{arguments.option("out")}, {});
  return code;
}

}  // namespace shardbench
