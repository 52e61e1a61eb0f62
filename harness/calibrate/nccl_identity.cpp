// What a log does not say in words is in its numbers: count and size give the ranks of a gathering collective, busbw
// over algbw those of an all-reduce.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <type_traits>

#include "harness/calibrate/nccl_log.hpp"

namespace shardbench {
namespace {

bool gathers(std::string_view collective) {
  return collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all" ||
         collective == "all_to_all_v" || collective == "gather" || collective == "scatter" || collective == "hypercube";
}

/// size / (count * type size) of the rows, when it is one whole number for all of them; 0 otherwise.
std::int64_t size_ratio(NcclRun const& run) {
  std::int64_t ratio = 0;
  for (NcclRow const& row : run.rows) {
    if (row.size_bytes == 0 || row.count == 0) continue;
    std::int64_t const bytes = nccl_type_bytes(row.type);
    if (row.count > row.size_bytes / bytes || row.size_bytes % (row.count * bytes) != 0) return 0;
    std::int64_t const here = row.size_bytes / (row.count * bytes);
    if (ratio != 0 && here != ratio) return 0;
    ratio = here;
  }
  return ratio;
}

/// Every timing of a row that has bytes.
template <class Visit>
void each_timing(NcclRun const& run, Visit visit) {
  run.each_timing([&](NcclRow const& row, NcclTiming const& t, bool) {
    if (row.size_bytes > 0) visit(row, t);
  });
}

/// Every busbw is 0 although bytes moved: the factor 2(n-1)/n or (n-1)/n of one rank.
bool moves_nothing(NcclRun const& run) {
  bool any = false, all = true;
  each_timing(run, [&](NcclRow const&, NcclTiming const& t) {
    any = any || t.algbw_gb_per_s > 1;
    all = all && t.busbw_gb_per_s == 0;
  });
  return any && all;
}

struct Range {
  double low = 0, high = HUGE_VAL;
  bool empty() const { return low > high; }
};

/// busbw over size/time that all rows allow, within the rounding of what was printed. Rows that contradict the middle
/// one are left to the review.
Range factor_range(NcclRun const& run) {
  std::vector<Range> ranges;
  each_timing(run, [&](NcclRow const& row, NcclTiming const& t) {
    double const rate = static_cast<double>(row.size_bytes) / t.time_us / 1e3;
    double const slack = 1.001 + t.time_rounding_us / t.time_us;
    if (t.busbw_gb_per_s < 20 * t.busbw_rounding || rate <= 0) return;
    ranges.push_back(
        {(t.busbw_gb_per_s - t.busbw_rounding) / rate / slack, (t.busbw_gb_per_s + t.busbw_rounding) / rate * slack});
  });
  if (ranges.empty()) return {1, 0};
  std::ranges::sort(ranges, {}, [](Range const& r) { return r.low + r.high; });
  Range const middle = ranges[ranges.size() / 2];
  Range common = middle;
  for (Range const& r : ranges) {
    Range const both{std::max(common.low, r.low), std::min(common.high, r.high)};
    if (!both.empty()) common = both;
  }
  return common;
}

/// How often the most frequent key is there.
template <class Range, class KeyOf>
std::int64_t most_repeats(Range&& entries, KeyOf key_of) {
  std::map<std::invoke_result_t<KeyOf, std::ranges::range_reference_t<Range>>, std::int64_t> times;
  std::int64_t most = 1;
  for (auto const& entry : entries) most = std::max(most, ++times[key_of(entry)]);
  return most;
}

/// Whether out of place is checked and in place never is: an all-reduce checks both, a sendrecv only the former.
bool checks_out_of_place_only(NcclRun const& run) {
  bool outside = false, inside = false;
  run.each_timing([&](NcclRow const&, NcclTiming const& t, bool in_place) {
    (in_place ? inside : outside) |= t.check != NcclCheck::not_checked;
  });
  bool const both = std::ranges::any_of(run.rows, [](NcclRow const& row) { return row.in_place.has_value(); });
  return both && outside && !inside;
}

void conclude_collective(NcclRun& run, std::int64_t ratio, Range factor) {
  if (!run.collective.empty() || run.rows.empty()) return;
  NcclRow const& row = run.rows.back();
  bool const reduces = !row.redop.empty() && row.redop != "none", rooted = row.root && *row.root >= 0;
  if (ratio > 1) {
    bool checked = false;
    each_timing(run, [&](NcclRow const&, NcclTiming const& t) { checked |= t.check != NcclCheck::not_checked; });
    bool const wrong_in_place = std::ranges::any_of(
        run.rows, [](NcclRow const& r) { return r.in_place && r.in_place->check == NcclCheck::wrong; });
    if (reduces)
      run.collective = "reduce_scatter";
    else if (!run.redop_column)
      run.collective = "all_gather";  // the old all-to-all has the column and leaves it empty
    else if (!row.redop.empty() && !wrong_in_place && checked && row.in_place &&
             row.in_place->check == NcclCheck::right)
      run.collective = "all_gather";  // an all-to-all cannot run in place, and its check there is off
    else if (wrong_in_place || (row.in_place && row.in_place->check == NcclCheck::not_checked))
      run.collective = "all_to_all";
    else
      run.may_be = {"all_gather", "all_to_all"};
    return;
  }
  if (rooted) {
    run.collective = reduces ? "reduce" : "broadcast";
  } else if (reduces && checks_out_of_place_only(run) && !factor.empty() && factor.low < 1.01) {
    run.collective = "send_receive";
  } else if (reduces) {
    run.collective = "all_reduce";
    if (!factor.empty() && factor.low < 1.01) run.may_be = {"all_reduce", "send_receive"};
  } else {
    run.may_be = {"broadcast", "send_receive"};
  }
}

/// Ranks of an all-reduce from 2(n-1)/n.
void conclude_ranks(NcclRun& run, Range factor) {
  if (factor.empty() || run.collective != "all_reduce") return;
  double const low = factor.low < 2 ? 2 / (2 - factor.low) : HUGE_VAL,
               high = factor.high < 2 ? 2 / (2 - factor.high) : 1e7;
  if (low > 1e6 || low < 1) return;
  run.ranks_low = static_cast<std::int64_t>(std::ceil(low)),
  run.ranks_high = static_cast<std::int64_t>(std::min(high, 1e7));
  if (run.ranks_high < run.ranks_low) return;
  if (run.ranks_low == run.ranks_high) {
    run.ranks = run.ranks_low, run.ranks_from = RanksFrom::bus_factor;
    return;
  }
  // Several fit: the only power of two among them is what was most likely run.
  std::int64_t power = 1;
  while (power < run.ranks_low) power *= 2;
  if (power <= run.ranks_high && 2 * power > run.ranks_high) run.ranks = power, run.ranks_from = RanksFrom::guess;
}

}  // namespace

std::optional<double> nccl_bus_factor(std::string_view collective, std::int64_t ranks) {
  if (ranks < 1) return std::nullopt;
  double const n = static_cast<double>(ranks);
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (gathers(collective)) return (n - 1) / n;
  if (collective == "broadcast" || collective == "reduce" || collective == "send_receive") return 1.0;
  return std::nullopt;
}

std::int64_t nccl_size_holders(NcclRun const& run) {
  if (run.collective.empty()) return 0;
  return gathers(run.collective) ? run.ranks : 1;
}

std::optional<double> NcclRun::bus_factor() const {
  return nccl_bus_factor(collective.empty() && !may_be.empty() ? may_be.front() : collective, ranks);
}

void identify(NcclRun& run) {
  std::int64_t const ratio = size_ratio(run);
  Range const factor = factor_range(run);
  run.ranks_by_size = ratio > 1 ? ratio : 0;
  if (!run.devices.empty()) {
    run.ranks = std::ranges::max_element(run.devices, {}, &NcclDevice::rank)->rank + 1;
    run.ranks_from = RanksFrom::rank_lines;
    run.worlds = most_repeats(run.devices, [](NcclDevice const& d) { return d.rank; });
  } else if (ratio > 1) {
    run.ranks = ratio, run.ranks_from = RanksFrom::sizes;
  } else if (moves_nothing(run)) {
    run.ranks = 1, run.ranks_from = RanksFrom::bus_factor;
    std::vector<NcclRow> with_bytes;
    std::ranges::copy_if(run.rows, std::back_inserter(with_bytes),
                         [](NcclRow const& row) { return row.size_bytes > 0; });
    run.worlds = most_repeats(with_bytes, [](NcclRow const& row) {
      return std::tuple(row.size_bytes, row.type, row.redop, row.root.value_or(-1));
    });
  }
  if (run.rows.empty()) run.worlds = std::max({run.worlds, run.headers, run.starts});
  conclude_collective(run, ratio, factor);
  if (run.ranks == 0) conclude_ranks(run, factor);
  // Oldest versions: algbw == busbw although their factor is not 1, and both are below size/time.
  auto const expected = nccl_bus_factor(run.collective.empty() && ratio > 1 ? "all_gather" : run.collective, run.ranks);
  if (!expected || *expected <= 0 || std::abs(*expected - 1) < 1e-3) return;
  std::int64_t with = 0, all = 0;
  each_timing(run, [&](NcclRow const& row, NcclTiming const& t) {
    double const rate = static_cast<double>(row.size_bytes) / t.time_us / 1e3;
    ++all;
    if (t.algbw_gb_per_s == t.busbw_gb_per_s && std::abs(t.algbw_gb_per_s - rate * *expected) < 0.006 + 0.01 * rate)
      ++with;
  });
  run.algbw_has_factor = all > 0 && 2 * with > all && run.rows.back().size_bytes > 0 && run.rows.back().out_of_place &&
                         run.rows.back().out_of_place->algbw_gb_per_s > 0.1;
}

}  // namespace shardbench
