#include "harness/calibrate/nccl_review.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "harness/calibrate/nccl_shape.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

bool is_empty(NcclRow const& row) { return row.size_bytes == 0 || row.count == 0; }

/// Checks of single values and of what the log says about itself; the curve's shape is looked at afterwards.
class Reviewer {
 public:
  Reviewer(NcclRun const& run, NcclReview& out) : run_(run), out_(out) {}

  void check() {
    check_worlds();
    check_names();
    check_rows();
    check_means();
    if (run_.truncated) out_.add(NcclFinding::truncated, "the log says that rows are left out");
    for (std::int64_t const line : run_.cut_lines) out_.add(NcclFinding::cut_row, "the row is not whole", line);
  }
  std::vector<SizedTiming> take_timings() { return std::move(timings_); }

 private:
  void refuse(std::string why) {
    if (out_.unusable.empty()) out_.unusable = std::move(why);
  }
  /// A finding that is reason enough to believe nothing of the run.
  void refuse_for(NcclFinding kind, std::string const& text) {
    out_.add(kind, text);
    refuse(text);
  }

  void check_worlds() {
    if (run_.worlds > 1) {
      refuse_for(NcclFinding::independent_worlds,
                 fmt::format("{} independent jobs of {} rank{} each are mixed: build nccl-tests with MPI=1 or mend the "
                             "launcher; no bandwidth is taken",
                             run_.worlds, std::max<std::int64_t>(run_.ranks, 1), run_.ranks > 1 ? "s" : ""));
    } else if (run_.ranks == 1) {
      refuse_for(NcclFinding::one_rank, "one rank: nothing crosses a link");
    }
    if (run_.rows.empty()) refuse_for(NcclFinding::no_rows, "no valid sample: no row can be read");
    if (run_.collective == "all_to_all_v")
      refuse_for(NcclFinding::uneven, "ranks send different amounts to each other (alltoallv): no balanced all-to-all");
    if (run_.shares_device()) {
      out_.add(NcclFinding::shared_device,
               "shared device, not a link measurement: two ranks name the same device of the same host");
      refuse("shared device, not a link measurement");
    }
  }

  void check_names() {
    if (run_.rows.empty()) return;
    if (run_.ranks_from == RanksFrom::guess)
      out_.add(NcclFinding::rank_guess, fmt::format("{} ranks is a guess: {} to {} fit what was printed", run_.ranks,
                                                    run_.ranks_low, run_.ranks_high));
    if (run_.ranks_by_size > 0 && run_.ranks != run_.ranks_by_size)
      refuse_for(NcclFinding::rank_conflict, fmt::format("the device list names {} ranks, size over count gives {}",
                                                         run_.ranks, run_.ranks_by_size));
    if (run_.ranks == 0) refuse("the number of ranks is not in the log and does not follow from it");
    if (run_.collective.empty()) {
      refuse_for(NcclFinding::collective_guess,
                 fmt::format("the collective is not named and can be {}", fmt::join(run_.may_be, " or ")));
    } else if (!run_.collective_named) {
      out_.add(NcclFinding::collective_guess,
               fmt::format("taken for {} from its columns{}", run_.collective,
                           run_.may_be.size() > 1 ? fmt::format(" ({} looks the same)", run_.may_be.back()) : ""));
    }
  }

  /// What a row's count says its size is: of all ranks together where the collective gathers, a rank's buffer elsewhere
  /// (nccl-tests, doc/PERFORMANCE.md). Nothing where collective or ranks are not known, or the device list is another
  /// job's.
  std::optional<std::int64_t> size_by_count(NcclRow const& row) const {
    bool const apart = run_.worlds > 1 || (run_.ranks_by_size > 0 && run_.ranks != run_.ranks_by_size);
    std::int64_t const holders = nccl_size_holders(run_);
    std::int64_t const bytes = nccl_type_bytes(row.type);
    if (apart || holders == 0 || is_empty(row) ||
        row.count > std::numeric_limits<std::int64_t>::max() / bytes / holders)
      return std::nullopt;
    return row.count * bytes * holders;
  }

  void check_sizes() {
    std::int64_t const holders = nccl_size_holders(run_);
    for (NcclRow const& row : run_.rows) {
      auto const told = size_by_count(row);
      if (!told || *told == row.size_bytes) continue;
      wrong_sizes_.insert(&row);
      out_.add(NcclFinding::inconsistent_row,
               fmt::format("size {} B, but {} of {}{} are {} B", row.size_bytes, row.count, row.type,
                           holders > 1 ? fmt::format(" over {} ranks", holders) : "", *told),
               row.line);
    }
  }

  void check_rows() {
    check_sizes();
    std::int64_t const zero = std::ranges::count_if(run_.rows, is_empty);
    std::int64_t unchecked = 0, sides = 0;
    bool any_in_place = false, all_wrong_in_place = true;
    run_.each_timing([&](NcclRow const& row, NcclTiming const& t, bool in_place) {
      if (t.check == NcclCheck::wrong)
        out_.add(NcclFinding::wrong_result, fmt::format("{}: the result is wrong", place_text(in_place)), row.line);
      if (is_empty(row)) return;
      ++sides;
      unchecked += t.check == NcclCheck::not_checked;
      check_timing(row, t, in_place);
      if (in_place) any_in_place = true, all_wrong_in_place = all_wrong_in_place && t.check == NcclCheck::wrong;
    });
    if (zero > 0)
      out_.add(NcclFinding::zero_rows, fmt::format("{} rows of no bytes are left out of every fit and mean", zero));
    if (sides > 0 && unchecked == sides) out_.add(NcclFinding::unchecked, "no result was checked");
    check_failures(any_in_place && all_wrong_in_place);
  }

  void check_failures(bool all_wrong_in_place) {
    std::int64_t const failed = run_.out_of_bounds.value_or(0);
    if (failed > 0) {
      out_.add(NcclFinding::wrong_result,
               fmt::format("{} values out of bounds: the run is invalid, whatever average it prints", failed));
      refuse(fmt::format("{} values out of bounds: the results are wrong", failed));
      return;
    }
    if (out_.has(NcclFinding::wrong_result) && run_.out_of_bounds == 0)
      out_.add(NcclFinding::wrong_result, fmt::format("{} wrong although the footer says 0 OK",
                                                      all_wrong_in_place ? "in place is" : "results are"));
    bool const none_right = std::ranges::none_of(timings_, [](SizedTiming const& t) { return !t.excluded; });
    if (out_.has(NcclFinding::wrong_result) && none_right) refuse("every result is wrong");
  }

  void check_timing(NcclRow const& row, NcclTiming const& t, bool in_place) {
    bool const no_size = wrong_sizes_.contains(&row);
    SizedTiming sized{row.size_bytes, row.line, t.time_us, in_place, t.check == NcclCheck::wrong || no_size};
    std::string_view const where = place_text(in_place);
    double const rate = static_cast<double>(row.size_bytes) / t.time_us / 1e3;
    auto const factor = run_.bus_factor();
    double const expected = run_.algbw_has_factor && factor ? rate * *factor : rate;
    // Twice the rounding of both numbers: the tool divides before it rounds, and some logs were edited by hand.
    double const slack = 2 * (t.algbw_rounding + expected * t.time_rounding_us / t.time_us) + 0.002 * expected;
    if (std::abs(t.algbw_gb_per_s - expected) > slack) {
      check_unit(row, t, expected, where);
      sized.excluded = true;
    } else if (factor && !run_.algbw_has_factor && run_.ranks_from != RanksFrom::guess) {
      double const bus = t.algbw_gb_per_s * *factor,
                   bus_slack = 2 * (t.busbw_rounding + t.algbw_rounding * *factor) + 0.002 * bus;
      if (std::abs(t.busbw_gb_per_s - bus) > bus_slack)
        out_.add(NcclFinding::bus_mismatch,
                 fmt::format("{}: busbw {} is not {:.4f} times algbw {}", where, t.busbw_gb_per_s, *factor,
                             t.algbw_gb_per_s),
                 row.line);
    }
    timings_.push_back(sized);
  }

  void check_unit(NcclRow const& row, NcclTiming const& t, double expected, std::string_view where) {
    double const ratio = expected > 0 ? t.algbw_gb_per_s / expected : 0;
    bool const thousand = std::abs(ratio / 1e3 - 1) < 0.1 || std::abs(ratio * 1e3 - 1) < 0.1;
    out_.add(thousand ? NcclFinding::unit_error : NcclFinding::inconsistent_row,
             fmt::format("{}: algbw {} GB/s, size over time gives {:.2f}{}", where, t.algbw_gb_per_s, expected,
                         thousand ? ": a unit is off by a thousand (ms for us, or GB for MB)" : ""),
             row.line);
  }

  void check_means() {
    double sum = 0, sum_nonzero = 0;
    std::int64_t count = 0, nonzero = 0;
    run_.each_timing([&](NcclRow const& row, NcclTiming const& t, bool) {
      sum += t.busbw_gb_per_s, ++count;
      if (row.size_bytes > 0) sum_nonzero += t.busbw_gb_per_s, ++nonzero;
    });
    if (count > 0) out_.mean_shown = sum / static_cast<double>(count);
    if (nonzero > 0) out_.mean_without_zero_rows = sum_nonzero / static_cast<double>(nonzero);
    if (!run_.printed_average || count == 0) return;
    // Each value was rounded to a hundredth.
    if (std::abs(*run_.printed_average - out_.mean_shown) > 0.006 + 0.003 * out_.mean_shown)
      out_.add(
          NcclFinding::average_differs,
          fmt::format("the printed average {} GB/s is not that of the values here ({:.4f}): it is over rows not shown",
                      *run_.printed_average, out_.mean_shown));
    else if (nonzero < count)
      out_.add(NcclFinding::average_differs,
               fmt::format("the printed average {} GB/s counts {} values of no bytes; without them it is {:.3f}",
                           *run_.printed_average, count - nonzero, out_.mean_without_zero_rows));
  }

  NcclRun const& run_;
  NcclReview& out_;
  std::vector<SizedTiming> timings_;
  std::set<NcclRow const*> wrong_sizes_;
};

}  // namespace

std::string_view to_string(NcclFinding finding) {
  constexpr EnumNames<NcclFinding> names{
      "no rows",       "uneven",       "one rank",   "independent jobs", "rank guess", "rank conflict", "collective",
      "shared device", "wrong result", "unchecked",  "inconsistent",     "unit",       "busbw",         "zero rows",
      "cut row",       "truncated",    "average",    "low average",      "warm-up",    "outlier",       "time falls",
      "dip",           "cliff",        "above link", "below link"};
  return names[finding];
}

std::int64_t NcclReview::count(NcclFinding kind) const {
  return std::ranges::count(suspicions, kind, &NcclSuspicion::kind);
}
bool NcclReview::has(NcclFinding kind) const { return count(kind) > 0; }

NcclReview review(NcclRun const& run, NcclLimits const& limits) {
  NcclReview out;
  Reviewer reviewer(run, out);
  reviewer.check();
  review_shape(run, reviewer.take_timings(), limits, out);
  return out;
}

}  // namespace shardbench
