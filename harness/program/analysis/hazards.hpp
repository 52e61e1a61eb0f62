#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "harness/program/step_program.hpp"

namespace shardbench {

/// Which earlier work of other streams an op must wait for, from what each tensor instance was last used for. One rule
/// for executor and simulator, so a prediction waits where a run waits.
class HazardTracker {
 public:
  struct Wait {
    StreamId stream;
    std::int64_t sequence;  ///< the op's number on that stream, from 1
  };

  explicit HazardTracker(std::size_t instances) : uses_(instances) {}

  /// Starts an op on `stream`; returns its number there. Waits are then collected by read(), write() and after_all().
  std::int64_t begin(StreamId stream) {
    stream_ = static_cast<std::size_t>(stream);
    needed_mask_ = 0;
    return ++issued_[stream_];
  }
  void read(std::int32_t instance) {
    Use& use = uses_[static_cast<std::size_t>(instance)];
    need(use.writer, use.written);
    use.readers[stream_] = issued_[stream_];
    use.reader_mask |= static_cast<std::uint16_t>(1u << stream_);
  }
  void write(std::int32_t instance) {
    Use& use = uses_[static_cast<std::size_t>(instance)];
    need(use.writer, use.written);
    for (unsigned left = use.reader_mask; left != 0; left &= left - 1) {
      int const s = std::countr_zero(left);
      need(static_cast<std::uint8_t>(s), use.readers[static_cast<std::size_t>(s)]);
    }
    use.reader_mask = 0;
    use.writer = static_cast<std::uint8_t>(stream_);
    use.written = issued_[stream_];
  }
  /// The op takes over memory that earlier compute may still be using: it waits for all compute issued so far.
  void after_all(StreamId other) { need(static_cast<std::uint8_t>(other), issued_[static_cast<std::size_t>(other)]); }

  /// Calls wait(stream, sequence) for each wait that this op adds to what its stream knows to be done: by its own
  /// waits, and by what the ops that it waited for had waited for themselves. A wait for compute is for all of it so
  /// far.
  template <class F>
  void finish(F&& wait) {
    if (needed_mask_ == 0) return;
    Clock& known = known_[stream_];
    Clock const before = known;
    each_needed([&](std::size_t s) {
      if (needed_[s] > before[s]) join(known, knowledge_at(s, needed_[s]));
    });
    // Compute's place is marked when somebody waits for it, and that is where it stands by then.
    if (needed_mask_ >> compute & 1u && needed_[compute] > known[compute]) {
      needed_[compute] = issued_[compute];
      join(known, known_[compute]);
    }
    // What another of the needed ops vouches for needs no wait of its own; no two ops vouch for each other.
    each_needed([&](std::size_t s) {
      if (needed_[s] > known[s]) wait(static_cast<StreamId>(s), needed_[s]);
    });
    each_needed([&](std::size_t s) { known[s] = std::max(known[s], needed_[s]); });
    if (known == before) return;
    History& history = histories_[stream_];
    std::size_t const at = history.count++ % History::kept;
    history.sequences[at] = issued_[stream_], history.known[at] = known;
  }
  std::int64_t issued(StreamId stream) const { return issued_[static_cast<std::size_t>(stream)]; }

 private:
  /// Two cache lines, of which most ops need the first.
  struct alignas(64) Use {
    std::int64_t written = 0;
    std::uint16_t reader_mask = 0;
    std::uint8_t writer = 0;
    std::array<std::int64_t, stream_count> readers;  ///< of the streams in the mask
  };
  static_assert(stream_count <= 16);

  static constexpr auto compute = static_cast<std::size_t>(StreamId::compute);

  /// By stream: the last op of it that is known to be done. Padded to whole vectors.
  struct alignas(64) Clock : std::array<std::int64_t, 16> {};
  /// What a stream knew from an op on, for the last ops that added to it. Which ops those were is looked through often,
  /// what was known then rarely: apart, the former stay in the cache.
  struct History {
    static constexpr std::size_t kept = 64;
    std::array<std::int64_t, kept> sequences;
    std::array<Clock, kept> known;
    std::size_t count = 0;
  };

  static void join(Clock& into, Clock const& from) {
    for (std::size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], from[s]);
  }

  /// What was done before an op started; nothing for ops too old to tell, which costs a wait at most.
  Clock const& knowledge_at(std::size_t stream, std::int64_t sequence) const {
    static constexpr Clock nothing{};
    History const& history = histories_[stream];
    for (std::size_t back = 1; back <= std::min(history.count, History::kept); ++back) {
      std::size_t const at = (history.count - back) % History::kept;
      if (history.sequences[at] <= sequence) return history.known[at];
    }
    return nothing;
  }

  void need(std::uint8_t stream, std::int64_t sequence) {
    if (stream == stream_ || sequence <= known_[stream_][stream]) return;
    auto const bit = static_cast<std::uint16_t>(1u << stream);
    needed_[stream] = needed_mask_ & bit ? std::max(needed_[stream], sequence) : sequence;
    needed_mask_ |= bit;
  }

  /// Calls f(stream) for those of which the op under way needs what its stream does not know to be done.
  template <class F>
  void each_needed(F&& f) const {
    for (unsigned left = needed_mask_; left != 0; left &= left - 1) f(static_cast<std::size_t>(std::countr_zero(left)));
  }

  std::vector<Use> uses_;
  Clock issued_{}, needed_{};
  std::array<Clock, stream_count> known_{};
  std::vector<History> histories_ = std::vector<History>(stream_count);
  std::size_t stream_ = 0;
  std::uint16_t needed_mask_ = 0;  ///< streams whose entry in needed_ counts
};

}  // namespace shardbench
