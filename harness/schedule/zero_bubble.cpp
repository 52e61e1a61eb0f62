#include "harness/schedule/zero_bubble.hpp"

#include <limits>
#include <utility>

#include "harness/schedule/actions.hpp"

namespace shardbench {
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
    std::size_t const places = previous_.size(), stages = s_.stages;
    forward_done_.assign(places * s_.microbatches, never);
    input_done_ = forward_done_;
    next_forward_.assign(places, 0), next_input_.assign(places, 0);
    held_.assign(stages, 0), forwards_left_.assign(stages, s_.chunks * s_.microbatches);
    deferred_.assign(stages, {});
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
  std::size_t cell(std::int32_t place, std::int32_t microbatch) const { return place * s_.microbatches + microbatch; }

  bool forward_ready(std::int32_t place) const {
    std::int32_t const m = next_forward_[place];
    if (m == s_.microbatches) return false;
    std::int32_t const source = previous_[place];
    return source == nowhere || forward_done_[cell(source, m)] <= now_;
  }

  bool input_ready(std::int32_t place) const {
    std::int32_t const m = next_input_[place];
    if (m == s_.microbatches || forward_done_[cell(place, m)] > now_) return false;
    std::int32_t const source = next_[place];
    return source == nowhere || input_done_[cell(source, m)] <= now_;
  }

  /// A later chunk's forward frees activations sooner, so it goes first; but an earlier chunk must not fill the memory
  /// that the later chunk needs to reach its first backward.
  bool forward_allowed(std::int32_t stage, std::int32_t chunk) const {
    std::int32_t reserve = 0;
    for (std::int32_t c = chunk + 1; c < s_.chunks; ++c)
      reserve += next_forward_[at({stage, c})] < s_.microbatches ? 1 : 0;
    return held_[stage] + reserve < cap_;
  }

  bool step(std::int32_t stage) {
    if (take_input(stage)) return true;
    auto const index = stage;
    if (deferred_[index].size() > patience_[index] && forwards_left_[index] > hurry_[index]) return take_weight(stage);
    return take_forward(stage) || take_weight(stage);
  }

  bool take_input(std::int32_t stage) {
    for (std::int32_t chunk = s_.chunks; chunk-- > 0;) {
      std::int32_t const place = at({stage, chunk});
      if (!input_ready(place)) continue;
      std::int32_t const m = next_input_[place]++;
      input_done_[cell(place, m)] = now_ + 1;
      deferred_[stage].entries.emplace_back(chunk, m);
      add(stage, {.kind = ActionKind::backward_input, .chunk = chunk, .microbatch = m});
      return true;
    }
    return false;
  }

  bool take_forward(std::int32_t stage) {
    for (std::int32_t chunk = s_.chunks; chunk-- > 0;) {
      std::int32_t const place = at({stage, chunk});
      if (!forward_ready(place) || !forward_allowed(stage, chunk)) continue;
      std::int32_t const m = next_forward_[place]++;
      forward_done_[cell(place, m)] = now_ + 1;
      ++held_[stage], --forwards_left_[stage];
      add(stage, forward(chunk, m));
      return true;
    }
    return false;
  }

  bool take_weight(std::int32_t stage) {
    Queue& waiting = deferred_[stage];
    if (waiting.size() == 0) return false;
    auto const [chunk, m] = waiting.entries[waiting.head++];
    --held_[stage];
    add(stage, {.kind = ActionKind::backward_weight, .chunk = chunk, .microbatch = m});
    return true;
  }

  void add(std::int32_t stage, Action const& action) {
    if (writes_) s_.order[stage].push_back(action);
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

}  // namespace

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

}  // namespace shardbench
