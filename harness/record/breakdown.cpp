#include <algorithm>
#include <array>
#include <cmath>

#include "harness/record/timeline.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t lanes = static_cast<std::size_t>(Lane::size_);
constexpr std::size_t wait_lane = lanes;  // pipeline waits, one more counter of the sweep

// A lane gains (+1) or loses (-1) an open span at this time.
struct Edge {
  double time_ms;
  std::size_t lane;
  int change;
};

void add_edges(std::vector<Edge>& edges, std::vector<Span> const& spans, bool waits, double start_ms, double end_ms) {
  for (Span const& span : spans) {
    VALIDATE(span.end_ms >= span.start_ms && std::isfinite(span.start_ms) && std::isfinite(span.end_ms),
             "a span ends before it starts (" + std::to_string(span.start_ms) + " to " + std::to_string(span.end_ms) +
                 " ms)");
    double const from = std::max(span.start_ms, start_ms);
    double const to = std::min(span.end_ms, end_ms);
    if (from >= to) continue;
    std::size_t const lane = waits ? wait_lane : static_cast<std::size_t>(span.lane);
    edges.push_back({from, lane, 1});
    edges.push_back({to, lane, -1});
  }
}

// Bills `ms` during which exactly the lanes with a positive count were open.
void bill(Breakdown& result, std::array<int, lanes + 1> const& open, double ms) {
  bool const computing = open[0] > 0;
  auto const in_flight = std::count_if(open.begin() + 1, open.begin() + lanes, [](int n) { return n > 0; });
  if (computing) result.compute_ms += ms;
  if (in_flight > 0) result.comm_ms += ms;
  if (in_flight > 0 && !computing) result.exposed_comm_ms += ms;
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    if (open[lane] == 0) continue;
    result.comm_axis_ms[lane] += ms;
    if (!computing) result.exposed_axis_ms[lane] += ms / static_cast<double>(in_flight);
  }
  if (!computing && in_flight == 0 && open[wait_lane] > 0) result.bubble_ms += ms;
}

}  // namespace

Breakdown break_down(std::vector<Span> const& spans, std::vector<Span> const& waits, double start_ms, double end_ms) {
  VALIDATE(end_ms >= start_ms, "a step ends before it starts");
  std::vector<Edge> edges;
  edges.reserve(2 * (spans.size() + waits.size()));
  add_edges(edges, spans, false, start_ms, end_ms);
  add_edges(edges, waits, true, start_ms, end_ms);
  std::sort(edges.begin(), edges.end(), [](Edge const& a, Edge const& b) { return a.time_ms < b.time_ms; });

  Breakdown result;
  result.step_ms = end_ms - start_ms;
  std::array<int, lanes + 1> open{};
  double last_ms = start_ms;
  for (Edge const& edge : edges) {
    if (edge.time_ms > last_ms) bill(result, open, edge.time_ms - last_ms);
    last_ms = edge.time_ms;
    open[edge.lane] += edge.change;
  }
  // The rest, so that the parts add up to the step; rounding may leave it a hair below zero.
  result.idle_ms = std::max(0.0, result.step_ms - result.compute_ms - result.exposed_comm_ms);
  result.bubble_ms = std::min(result.bubble_ms, result.idle_ms);
  return result;
}

std::string_view to_string(Lane lane) {
  constexpr std::string_view names[] = {"compute", "tp", "cp", "dp", "pp", "ep"};
  static_assert(std::size(names) == lanes);
  VALIDATE(lane < Lane::size_, "no such lane");
  return names[static_cast<std::size_t>(lane)];
}

}  // namespace shardbench
