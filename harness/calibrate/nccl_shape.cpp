#include "harness/calibrate/nccl_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace shardbench {
namespace {

constexpr double outlier_small = 3;    ///< against twin or neighbours where latency rules
constexpr double outlier_large = 1.3;  ///< where bandwidth rules: the average over many bytes is steadier
constexpr double warm_up_excess = 1.5;
constexpr double dip_ratio = 0.8, cliff_ratio = 1.0 / 3;

using BySize = std::map<std::int64_t, std::vector<SizedTiming*>>;

std::string size_text(double bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024) bytes /= 1024, ++unit;
  return fmt::format("{:.4g} {}", bytes, units[unit]);
}

BySize group(std::vector<SizedTiming>& timings) {
  BySize groups;
  for (SizedTiming& t : timings)
    if (!t.excluded) groups[t.size].push_back(&t);
  return groups;
}

double least(std::vector<SizedTiming*> const& group) {
  return (*std::ranges::min_element(group, {}, &SizedTiming::time_us))->time_us;
}

void drop_warm_up(BySize& groups, NcclReview& out) {
  if (groups.size() < 3) return;
  auto const first = groups.begin();
  SizedTiming* const earliest =
      *std::ranges::min_element(first->second, {}, [](SizedTiming const* t) { return t->in_place; });
  double const next = least(std::next(first)->second), twin = least(first->second);
  bool const alone = first->second.size() == 1 || twin < earliest->time_us / warm_up_excess;
  if (!alone || earliest->time_us < warm_up_excess * next) return;
  earliest->excluded = true;
  out.add(NcclFinding::warm_up,
          fmt::format("{:g} us for the first size, {:g} for the next: warm-up, not counted", earliest->time_us, next),
          earliest->line);
}

/// A value far above its twin, or above both neighbours when it has no twin.
void drop_outliers(BySize& groups, double latency_us, NcclReview& out) {
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    double reference = least(group->second);
    std::string against = "its other half";
    if (group->second.size() == 1) {
      auto const next = std::next(group);
      if (next == groups.end() || group == groups.begin()) continue;
      reference = std::max(least(next->second), least(std::prev(group)->second)), against = "both neighbours";
    }
    double const limit = group->first > 65536 && reference > 4 * latency_us ? outlier_large : outlier_small;
    for (SizedTiming* t : group->second) {
      if (t->excluded || t->time_us <= limit * reference) continue;
      t->excluded = true;
      out.add(NcclFinding::outlier,
              fmt::format("{} {}: {:g} us, {:.1f} times {} ({:g} us)", size_text(static_cast<double>(t->size)),
                          place_text(t->in_place), t->time_us, t->time_us / reference, against, reference),
              t->line);
    }
  }
}

std::vector<NcclPoint> points_of(BySize const& groups) {
  std::vector<NcclPoint> points;
  for (auto const& [size, group] : groups) {
    double sum = 0, count = 0;
    for (SizedTiming const* t : group)
      if (!t->excluded) sum += t->time_us, ++count;
    if (count > 0) points.push_back({static_cast<double>(size), sum / count});
  }
  return points;
}

double rate(NcclPoint const& p) { return p.bytes / p.time_us; }

void find_falls(std::vector<NcclPoint> const& points, NcclReview& out) {
  for (std::size_t i = 1; i < points.size(); ++i)
    if (points[i].time_us < 0.8 * points[i - 1].time_us)
      out.add(NcclFinding::time_falls,
              fmt::format("{:.4g} us at {}, {:.4g} us at {}: another protocol or algorithm; no single line fits",
                          points[i - 1].time_us, size_text(points[i - 1].bytes), points[i].time_us,
                          size_text(points[i].bytes)));
}

/// From where the rate falls below a share of the best so far to where it is back.
void find_dips(std::vector<NcclPoint> const& points, NcclReview& out) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    double const before = rate(points[i - 1]);
    if (rate(points[i]) >= dip_ratio * before) continue;
    std::size_t lowest = i, end = i;
    for (; end < points.size() && rate(points[end]) < dip_ratio * before; ++end)
      if (rate(points[end]) < rate(points[lowest])) lowest = end;
    double const ratio = rate(points[lowest]) / before;
    out.add(ratio < cliff_ratio ? NcclFinding::cliff : NcclFinding::dip,
            fmt::format("at {} the bandwidth falls to {:.3f} of that at {}{}{}", size_text(points[i].bytes),
                        rate(points[i]) / before, size_text(points[i - 1].bytes),
                        lowest > i ? fmt::format(", at {} to {:.3f}", size_text(points[lowest].bytes), ratio) : "",
                        end < points.size() ? fmt::format(", and is back at {}", size_text(points[end].bytes)) : ""));
    i = end;
  }
}

struct LinkRate {
  std::string_view device;
  double gb_per_s;
};
/// NVLink of one GPU in one direction, GB/s (NVIDIA data sheets: half of the total that they print). Longer names
/// first.
constexpr LinkRate link_rates[] = {{"GB300", 900},    {"GB200", 900},    {"B300", 900},           {"B200", 900},
                                   {"H800", 200},     {"H200", 450},     {"H100 80GB HBM3", 450}, {"A800", 200},
                                   {"A100-SXM", 300}, {"V100-SXM2", 150}};

std::optional<double> link_of(NcclRun const& run) {
  if (run.nodes() != 1 || run.devices.empty()) return std::nullopt;
  for (LinkRate const& link : link_rates)
    if (run.devices.front().name.find(link.device) != std::string::npos) return link.gb_per_s;
  return std::nullopt;
}

void compare_with_link(NcclRun const& run, NcclLimits const& limits, NcclReview& out) {
  out.link_gb_per_s = limits.link_gb_per_s ? limits.link_gb_per_s : link_of(run);
  bool const large = out.peak_size >= (std::int64_t{64} << 20);
  if (!out.link_gb_per_s || out.peak_busbw <= 0 || !out.unusable.empty()) return;
  double const share = out.peak_busbw / *out.link_gb_per_s;
  if (share > 1.02)
    out.add(
        NcclFinding::above_link,
        fmt::format("busbw {:.2f} GB/s is above link ({:g} GB/s): in-network reduction or tree; effective, not clipped",
                    out.peak_busbw, *out.link_gb_per_s));
  if (share < 0.5 && large)
    out.add(NcclFinding::below_link,
            fmt::format("busbw {:.2f} GB/s is {:.0f}% of the link's {:g}: not at {} rate for {} ranks", out.peak_busbw,
                        100 * share, *out.link_gb_per_s, limits.link_gb_per_s ? "the stated" : "NVLink", run.ranks));
}

/// The best printed busbw among what was kept.
void find_peak(NcclRun const& run, std::vector<SizedTiming> const& timings, NcclReview& out) {
  auto const factor = run.bus_factor();
  if (!factor) return;
  for (SizedTiming const& t : timings) {
    if (t.excluded) continue;
    double const busbw = static_cast<double>(t.size) / t.time_us / 1e3 * *factor;
    if (busbw > out.peak_busbw) out.peak_busbw = busbw, out.peak_size = t.size;
  }
}

}  // namespace

void review_shape(NcclRun const& run, std::vector<SizedTiming> timings, NcclLimits const& limits, NcclReview& out) {
  BySize groups = group(timings);
  double latency_us = 0;
  if (!groups.empty() && groups.begin()->first <= 8192) latency_us = least(groups.begin()->second);
  drop_warm_up(groups, out);
  drop_outliers(groups, latency_us, out);
  find_peak(run, timings, out);
  if (out.unusable.empty()) {
    out.points = points_of(groups);
    find_falls(out.points, out);
    find_dips(out.points, out);
  }
  compare_with_link(run, limits, out);
  if (run.printed_average && out.peak_busbw > 0 && *run.printed_average < 0.5 * out.peak_busbw && out.unusable.empty())
    out.add(NcclFinding::low_average,
            fmt::format(
                "the printed average {:g} GB/s is {:.0f}% of the best row ({:.2f} GB/s at {}): small sizes are in it",
                *run.printed_average, 100 * *run.printed_average / out.peak_busbw, out.peak_busbw,
                size_text(static_cast<double>(out.peak_size))));
}

}  // namespace shardbench
