#include <algorithm>
#include <array>
#include <cmath>

#include "harness/record/timeline.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t lanes = enum_count<Lane>;
constexpr std::size_t wait_lane = lanes;  // pipeline waits, one more counter of the sweep

// When spans open and close; those of a lane mostly come in order.
struct Edges {
  std::vector<double> opened, closed;

  void add(Span const& span, double start_ms, double end_ms) {
    VALIDATE(span.end_ms >= span.start_ms && std::isfinite(span.start_ms) && std::isfinite(span.end_ms),
             "a span ends before it starts (" + std::to_string(span.start_ms) + " to " + std::to_string(span.end_ms) +
                 " ms)");
    double const from = std::max(span.start_ms, start_ms);
    double const to = std::min(span.end_ms, end_ms);
    if (from >= to) return;
    opened.push_back(from);
    closed.push_back(to);
  }
};

// The edges of one kind on one lane, and what they do to its number of open spans.
struct Queue {
  std::vector<double> times;
  std::size_t lane = 0, next = 0;
  int change = 0;
  double head_ms() const { return times[next]; }
};

void add_queues(std::vector<Queue>& queues, Edges edges, std::size_t lane) {
  for (int const change : {1, -1}) {
    std::vector<double>& times = change > 0 ? edges.opened : edges.closed;
    if (times.empty()) continue;
    if (!std::ranges::is_sorted(times)) std::ranges::sort(times);
    queues.push_back({std::move(times), lane, 0, change});
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
  EnumArray<Lane, Edges> edges;
  for (Span const& span : spans) edges[span.lane].add(span, start_ms, end_ms);
  Edges awaited;
  for (Span const& wait : waits) awaited.add(wait, start_ms, end_ms);
  std::vector<Queue> queues;
  for (std::size_t lane = 0; lane < lanes; ++lane) add_queues(queues, std::move(edges[lane]), lane);
  add_queues(queues, std::move(awaited), wait_lane);

  Breakdown result;
  result.step_ms = end_ms - start_ms;
  std::array<int, lanes + 1> open{};
  double last_ms = start_ms;
  while (!queues.empty()) {
    auto const first = std::min_element(queues.begin(), queues.end(),
                                        [](Queue const& a, Queue const& b) { return a.head_ms() < b.head_ms(); });
    if (first->head_ms() > last_ms) bill(result, open, first->head_ms() - last_ms);
    last_ms = first->head_ms();
    open[first->lane] += first->change;
    if (++first->next == first->times.size()) queues.erase(first);
  }
  // The rest, so that the parts add up to the step; rounding may leave it a hair below zero.
  result.idle_ms = std::max(0.0, result.step_ms - result.compute_ms - result.exposed_comm_ms);
  result.bubble_ms = std::min(result.bubble_ms, result.idle_ms);
  return result;
}

void Breakdown::add(Breakdown const& other, double factor) {
  for (double Breakdown::*const part : {&Breakdown::step_ms, &Breakdown::compute_ms, &Breakdown::comm_ms,
                                        &Breakdown::exposed_comm_ms, &Breakdown::idle_ms, &Breakdown::bubble_ms})
    this->*part += factor * other.*part;
  for (Lane const lane : enum_values<Lane>()) {
    comm_axis_ms[lane] += factor * other.comm_axis_ms[lane];
    exposed_axis_ms[lane] += factor * other.exposed_axis_ms[lane];
  }
}

std::string_view to_string(Lane lane) {
  constexpr EnumNames<Lane> names{"compute", "tp", "cp", "dp", "pp", "ep"};
  VALIDATE(lane < Lane::size_, "no such lane");
  return names[lane];
}

}  // namespace shardbench
