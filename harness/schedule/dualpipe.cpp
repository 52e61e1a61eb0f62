#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "harness/schedule/actions.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

bool fit(std::int64_t pp, std::int64_t microbatches) { return microbatches % 2 == 0 && microbatches >= 2 * pp; }

std::string problem(std::int64_t pp, std::int64_t microbatches) {
  return fmt::format("{} microbatches given, dualpipe needs an even number of at least 2*pp = {}", microbatches,
                     2 * pp);
}

/// F&B, a forward and a backward as a pair, taken to be F + B.
std::optional<double> bubble(PipelineSize const& size, PassTimes const& stage) {
  double const pair = stage.forward + stage.backward();
  return (size.stages / 2 - 1) * (pair + stage.backward() - 3 * stage.backward_weight);
}

double longest_path(StagePath const& path) {
  auto const& [forward, input, weight, message] = path.own;
  return path.work + (path.size.stages / 2 - 1) * std::max(0.0, forward + input - weight + message);
}

/// One rank of DualPipe, as counts of each phase of the DeepSeek-V3 report's algorithm. "Near" is the direction whose
/// first stage is closer to the rank; a rank of the upper half sees the two directions swapped.
class DualPipeRank {
 public:
  DualPipeRank(PipelineSchedule& s, std::int32_t rank) : s_(s), actions_(s.order[rank]) {
    std::int32_t const half = s.stages / 2;
    upper_ = rank >= half;
    depth_ = std::min(rank, s.stages - 1 - rank);
    outer_ = half - depth_ - 1;
    per_direction_ = s.microbatches / 2;
  }

  void fill() {
    for (int i = 0; i < 2 * outer_; ++i) forward_of(near);
    for (int i = 0; i < depth_ + 1; ++i) forward_of(near), forward_of(far);
    for (int i = 0; i < outer_; ++i) input_of(far), weight(), forward_of(far);
    steady();
    for (int i = 0; i < outer_; ++i) backward_of(far), pair_of(far, near);
    drain();
    for (int i = 0; i < outer_; ++i) weight(), input_of(near);
    for (int i = 0; i < depth_ + 1; ++i) weight();
  }

 private:
  static constexpr int near = 0, far = 1;

  void steady() {
    std::int32_t const rounds = per_direction_ - s_.stages + depth_ + 1;
    bool const middle = outer_ == 0;
    for (int i = 0; i < rounds; ++i) {
      // The two innermost ranks feed each other at the start, so their first pair cannot overlap.
      if (i == 0 && middle)
        forward_of(near), backward_of(far);
      else
        pair_of(near, far);
      pair_of(far, near);
    }
  }

  /// In the second half of the drain weight gradients are put off, to shorten the way of the input gradients.
  void drain() {
    bool split = false;
    std::int32_t const rounds = depth_ + 1;
    for (int i = 0; i < rounds; ++i) {
      if (i == rounds / 2 && depth_ % 2 == 1) split = true;
      split ? input_of(far) : backward_of(far);
      if (i == rounds / 2 && depth_ % 2 == 0) split = true;
      split ? input_of(near) : backward_of(near);
    }
  }

  std::int32_t chunk(int side) const { return (side == far) != upper_ ? 1 : 0; }
  /// Direction 0 takes the first half of the microbatches, direction 1 the second.
  std::int32_t take(std::int32_t (&next)[2], std::int32_t c) { return c * per_direction_ + next[c]++; }

  void forward_of(int side) { actions_.push_back(forward(chunk(side), take(next_forward_, chunk(side)))); }
  void backward_of(int side) { actions_.push_back(backward(chunk(side), take(next_backward_, chunk(side)))); }
  void input_of(int side) {
    Action const a{
        .kind = ActionKind::backward_input, .chunk = chunk(side), .microbatch = take(next_backward_, chunk(side))};
    deferred_.push_back(a);
    actions_.push_back(a);
  }
  void weight() {
    Action a = deferred_.front();
    deferred_.pop_front();
    a.kind = ActionKind::backward_weight;
    actions_.push_back(a);
  }
  void pair_of(int forward_side, int backward_side) {
    std::int32_t const f = chunk(forward_side), b = chunk(backward_side);
    Action a{.kind = ActionKind::pair, .chunk = f, .microbatch = take(next_forward_, f)};
    a.pair_chunk = b;
    a.pair_microbatch = take(next_backward_, b);
    actions_.push_back(a);
  }

  PipelineSchedule& s_;
  std::vector<Action>& actions_;
  bool upper_ = false;
  std::int32_t depth_ = 0;  ///< distance from the nearer end
  std::int32_t outer_ = 0;  ///< distance from the middle
  std::int32_t per_direction_ = 0;
  std::int32_t next_forward_[2] = {}, next_backward_[2] = {};
  std::deque<Action> deferred_;
};

void order_dualpipe(PipelineSchedule& s) {
  if (s.stages % 2 != 0) throw IllegalConfig(fmt::format("dualpipe: pp={} must be even", s.stages));
  if (!fit(s.stages, s.microbatches)) throw IllegalConfig("schedule: " + problem(s.stages, s.microbatches));
  for (std::int32_t rank = 0; rank < s.stages; ++rank) DualPipeRank(s, rank).fill();
}

}  // namespace

constinit ScheduleRules const dualpipe_rules{
    .name = "dualpipe",
    .summary = "microbatches enter from both ends, forwards overlap backwards; weights twice",
    .source = "DeepSeek-AI 2024, DeepSeek-V3 Technical Report",
    .megatron = std::nullopt,
    .torchtitan = "",
    .fixed_chunks = 2,
    .layout = PieceLayout::both_ways,
    .even_stages = true,
    .microbatches = {.fit = fit, .problem = problem},
    .splits_backward = true,
    .sends_ahead = never_sends_ahead,
    .planned = true,
    .order = order_dualpipe,
    .in_flight = [](PipelineSize const& size, double) { return std::min(size.microbatches, size.stages + 1); },
    .bubble_formula = "(p/2-1)(F&B+B-3W), F&B = F+B",
    .bubble = bubble,
    .longest_path = longest_path,
};

}  // namespace shardbench
