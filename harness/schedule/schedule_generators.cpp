#include "harness/schedule/schedule_generators.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace shardbench {
namespace {

Action forward(std::int32_t chunk, std::int32_t microbatch) {
  return {.kind = ActionKind::forward, .chunk = chunk, .microbatch = microbatch};
}
Action backward(std::int32_t chunk, std::int32_t microbatch) {
  return {.kind = ActionKind::backward, .chunk = chunk, .microbatch = microbatch};
}

}  // namespace

void order_gpipe(PipelineSchedule& s) {
  s.order.assign(static_cast<std::size_t>(s.stages), {});
  for (auto& actions : s.order) {
    for (std::int32_t m = 0; m < s.microbatches; ++m) actions.push_back(forward(0, m));
    for (std::int32_t m = 0; m < s.microbatches; ++m) actions.push_back(backward(0, m));
  }
}

void order_1f1b(PipelineSchedule& s) {
  s.order.assign(static_cast<std::size_t>(s.stages), {});
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    auto& actions = s.order[static_cast<std::size_t>(stage)];
    std::int32_t const warmup = std::min(s.stages - 1 - stage, s.microbatches);
    for (std::int32_t m = 0; m < s.microbatches + warmup; ++m) {
      if (m < s.microbatches) actions.push_back(forward(0, m));
      if (m >= warmup) actions.push_back(backward(0, m - warmup));
    }
  }
}

void order_interleaved(PipelineSchedule& s) {
  s.order.assign(static_cast<std::size_t>(s.stages), {});
  std::int32_t const rounds = std::max(1, s.microbatches / s.stages);
  std::int32_t const per_round = s.microbatches / rounds;
  std::int32_t const total = s.microbatches * s.chunks;
  // The k-th forward of a stage: `per_round` microbatches go through chunk 0, then chunk 1, ..., then the next round.
  auto const chunk_of = [&](std::int32_t k) { return (k / per_round) % s.chunks; };
  auto const microbatch_of = [&](std::int32_t k) { return k / (per_round * s.chunks) * per_round + k % per_round; };
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    auto& actions = s.order[static_cast<std::size_t>(stage)];
    std::int32_t const warmup = s.chunks == 1
                                    ? std::min(s.stages - 1 - stage, total)
                                    : std::min((s.stages - 1 - stage) * 2 + (s.chunks - 1) * per_round, total);
    for (std::int32_t k = 0; k < total + warmup; ++k) {
      if (k < total) actions.push_back(forward(chunk_of(k), microbatch_of(k)));
      if (k >= warmup) actions.push_back(backward(s.chunks - 1 - chunk_of(k - warmup), microbatch_of(k - warmup)));
    }
  }
}

namespace {

/// Orders a zero-bubble schedule by playing it with forward, input-gradient and weight-gradient parts of equal length:
/// a free stage takes a ready input gradient; else, until its last `hurry` forwards, a deferred weight gradient when
/// more than `patience` of them wait; else a ready forward while fewer than `cap` activations are held; else any
/// deferred weight gradient. The result is fixed data; real durations only change when things happen.
class ZeroBubblePlayer {
 public:
  ZeroBubblePlayer(PipelineSchedule& schedule, std::int32_t cap) : s_(schedule), cap_(cap) {
    for (std::int32_t stage = 0; stage < s_.stages; ++stage)
      for (std::int32_t chunk = 0; chunk < s_.chunks; ++chunk) {
        ChunkPlace const place{stage, chunk};
        auto const index = [&](std::optional<ChunkPlace> other) { return other ? at(*other) : nowhere; };
        previous_.push_back(index(s_.previous(place))), next_.push_back(index(s_.next(place)));
      }
  }

  /// Plays with a patience and a hurry for each stage until the game is over or `limit` parts long; returns its length.
  /// Writes the order down when told to.
  std::int32_t play(std::vector<std::int32_t> patience, std::vector<std::int32_t> hurry, std::int32_t limit,
                    bool writes) {
    patience_ = std::move(patience), hurry_ = std::move(hurry), writes_ = writes;
    std::size_t const places = previous_.size(), stages = static_cast<std::size_t>(s_.stages);
    forward_done_.assign(places * static_cast<std::size_t>(s_.microbatches), never);
    input_done_ = forward_done_;
    next_forward_.assign(places, 0), next_input_.assign(places, 0);
    held_.assign(stages, 0), forwards_left_.assign(stages, s_.chunks * s_.microbatches);
    deferred_.assign(stages, {});
    if (writes_) s_.order.assign(stages, {});
    std::int64_t left = std::int64_t{3} * s_.stages * s_.chunks * s_.microbatches;
    for (now_ = 0; left > 0 && now_ < limit; ++now_)
      for (std::int32_t stage = 0; stage < s_.stages; ++stage) left -= step(stage) ? 1 : 0;
    return now_;
  }

 private:
  static constexpr std::int32_t never = 1 << 30;
  static constexpr std::int32_t nowhere = -1;

  /// Input gradients whose weight gradients wait: first in, first out.
  struct Queue {
    std::vector<std::pair<std::int32_t, std::int32_t>> entries;
    std::size_t head = 0;
    std::int32_t size() const { return static_cast<std::int32_t>(entries.size() - head); }
  };

  std::int32_t at(ChunkPlace p) const { return p.stage * s_.chunks + p.chunk; }
  std::size_t cell(std::int32_t place, std::int32_t microbatch) const {
    return static_cast<std::size_t>(place) * static_cast<std::size_t>(s_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  bool forward_ready(std::int32_t place) const {
    std::int32_t const m = next_forward_[static_cast<std::size_t>(place)];
    if (m == s_.microbatches) return false;
    std::int32_t const source = previous_[static_cast<std::size_t>(place)];
    return source == nowhere || forward_done_[cell(source, m)] <= now_;
  }

  bool input_ready(std::int32_t place) const {
    std::int32_t const m = next_input_[static_cast<std::size_t>(place)];
    if (m == s_.microbatches || forward_done_[cell(place, m)] > now_) return false;
    std::int32_t const source = next_[static_cast<std::size_t>(place)];
    return source == nowhere || input_done_[cell(source, m)] <= now_;
  }

  /// A later chunk's forward frees activations sooner, so it goes first; but an earlier chunk must not fill the memory
  /// that the later chunk needs to reach its first backward.
  bool forward_allowed(std::int32_t stage, std::int32_t chunk) const {
    std::int32_t reserve = 0;
    for (std::int32_t c = chunk + 1; c < s_.chunks; ++c)
      reserve += next_forward_[static_cast<std::size_t>(at({stage, c}))] < s_.microbatches ? 1 : 0;
    return held_[static_cast<std::size_t>(stage)] + reserve < cap_;
  }

  bool step(std::int32_t stage) {
    if (take_input(stage)) return true;
    auto const index = static_cast<std::size_t>(stage);
    if (deferred_[index].size() > patience_[index] && forwards_left_[index] > hurry_[index]) return take_weight(stage);
    return take_forward(stage) || take_weight(stage);
  }

  bool take_input(std::int32_t stage) {
    for (std::int32_t chunk = s_.chunks; chunk-- > 0;) {
      std::int32_t const place = at({stage, chunk});
      if (!input_ready(place)) continue;
      std::int32_t const m = next_input_[static_cast<std::size_t>(place)]++;
      input_done_[cell(place, m)] = now_ + 1;
      deferred_[static_cast<std::size_t>(stage)].entries.emplace_back(chunk, m);
      add(stage, {.kind = ActionKind::backward_input, .chunk = chunk, .microbatch = m});
      return true;
    }
    return false;
  }

  bool take_forward(std::int32_t stage) {
    for (std::int32_t chunk = s_.chunks; chunk-- > 0;) {
      std::int32_t const place = at({stage, chunk});
      if (!forward_ready(place) || !forward_allowed(stage, chunk)) continue;
      std::int32_t const m = next_forward_[static_cast<std::size_t>(place)]++;
      forward_done_[cell(place, m)] = now_ + 1;
      ++held_[static_cast<std::size_t>(stage)], --forwards_left_[static_cast<std::size_t>(stage)];
      add(stage, forward(chunk, m));
      return true;
    }
    return false;
  }

  bool take_weight(std::int32_t stage) {
    Queue& waiting = deferred_[static_cast<std::size_t>(stage)];
    if (waiting.size() == 0) return false;
    auto const [chunk, m] = waiting.entries[waiting.head++];
    --held_[static_cast<std::size_t>(stage)];
    add(stage, {.kind = ActionKind::backward_weight, .chunk = chunk, .microbatch = m});
    return true;
  }

  void add(std::int32_t stage, Action const& action) {
    if (writes_) s_.order[static_cast<std::size_t>(stage)].push_back(action);
  }

  PipelineSchedule& s_;
  std::int32_t cap_;                                     ///< microbatch-chunks a stage may hold
  std::vector<std::int32_t> previous_, next_;            ///< [place] where its input and its gradient come from
  std::vector<std::int32_t> patience_;                   ///< [stage] weight gradients that may wait
  std::vector<std::int32_t> hurry_;                      ///< [stage] last forwards that go before any weight gradient
  std::vector<std::int32_t> forward_done_, input_done_;  ///< [place][microbatch]
  std::vector<std::int32_t> next_forward_, next_input_, held_, forwards_left_;
  std::vector<Queue> deferred_;
  std::int32_t now_ = 0;
  bool writes_ = false;
};

/// Plays with several degrees of patience and hurry along the stages and keeps the shortest game (the first of equals).
void order_zero_bubble(PipelineSchedule& s, std::int32_t cap) {
  std::int32_t const last = s.stages - 1;
  auto const along = [&](int rule) {
    std::vector<std::int32_t> values;
    for (std::int32_t stage = 0; stage <= last; ++stage)
      values.push_back(rule == 0 ? 0 : rule == 1 ? stage : rule == 2 ? last - stage : rule == 3 ? last : cap);
    return values;
  };
  ZeroBubblePlayer player(s, cap);
  std::int32_t shortest = std::numeric_limits<std::int32_t>::max();
  std::pair<int, int> best;
  for (int patience = 0; patience < 5; ++patience)
    for (int hurry = 0; hurry < 5; ++hurry) {
      std::int32_t const length = player.play(along(patience), along(hurry), shortest, false);
      if (length < shortest) shortest = length, best = {patience, hurry};
    }
  player.play(along(best.first), along(best.second), shortest, true);
}

}  // namespace

void order_zb_h1(PipelineSchedule& s) {
  // Each stage may hold as many microbatches as the first stage of 1F1B: the published memory of ZB-H1.
  order_zero_bubble(s, s.stages);
}

void order_zb_v(PipelineSchedule& s) {
  // Half-size chunks, 2 * stages of them: again the memory of 1F1B's first stage, on every stage.
  order_zero_bubble(s, 2 * s.stages);
}

namespace {

/// One rank of DualPipe, as counts of each phase of the DeepSeek-V3 report's algorithm. "Near" is the direction whose
/// first stage is closer to the rank; a rank of the upper half sees the two directions swapped.
class DualPipeRank {
 public:
  DualPipeRank(PipelineSchedule& s, std::int32_t rank) : s_(s), actions_(s.order[static_cast<std::size_t>(rank)]) {
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

}  // namespace

void order_dualpipe(PipelineSchedule& s) {
  s.order.assign(static_cast<std::size_t>(s.stages), {});
  for (std::int32_t rank = 0; rank < s.stages; ++rank) DualPipeRank(s, rank).fill();
}

}  // namespace shardbench
