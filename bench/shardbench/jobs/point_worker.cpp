#include "bench/shardbench/jobs/point_worker.hpp"

#include <fmt/format.h>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/row_builder.hpp"
#include "bench/shardbench/jobs/run_point.hpp"
#include "harness/report/columns.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

FinishedPoint skipped_point(Job& job, Experiment const& e, std::string reason, Source source) {
  FinishedPoint point{start_row(e, source), {}};
  set_place(point.row, job);
  point.row.outcome = Outcome::skipped;
  point.row.reason = one_line(std::move(reason));
  return point;
}

}  // namespace

FinishedPoint finish_point(Job& job, Experiment const& e, std::optional<ReplayOptions> const& replay) {
  Source const source = replay ? Source::replayed : Source::measured;
  try {
    PointResult result = replay ? replay_point(job, e, *replay) : run_point(job, e, false);
    return {std::move(result.row), std::move(result.ops)};
  } catch (IllegalConfig const& error) {
    return skipped_point(job, e, error.what(), source);
  } catch (OutOfMemory const& error) {
    return skipped_point(job, e, error.what(), source);
  } catch (std::exception const& error) {
    fmt::print(stderr, "shardbench: rank {}: {}\n", job.world().rank(), one_line(error.what()));
    std::fflush(stderr);
    if (job.world().size() > 1) MpiProcess::abort(1);
    throw;
  }
}

std::string json_of(ReportRow const& row) {
  std::string text = one_line(to_json(std::span(&row, 1)));
  std::size_t const open = text.find('{'), close = text.rfind('}');
  return text.substr(open, close - open + 1);
}

}  // namespace shardbench
