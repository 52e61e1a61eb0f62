#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "harness/program/analysis/memory_plan.hpp"

namespace shardbench {

/// Calls read(place) for the tensors that an op reads, then write(place) for those it writes;
/// place.instance(microbatch) is what the tracker takes. Returns whether the op takes over memory that compute issued
/// so far may still be using: it is communication, and writes where temporaries of other ops lay.
template <class Read, class Write>
bool touches(Op const& op, MemoryPlan const& plan, Read&& read, Write&& write) {
  bool takes_memory = false;
  each_operand(
      op, [&](TensorRef const& ref) { read(plan.places[ref.id]); },
      [&](TensorRef const& ref) {
        MemoryPlan::Place const& place = plan.places[ref.id];
        takes_memory = takes_memory || place.residence == Residence::temporary;
        write(place);
      });
  return takes_memory && op.stream != StreamId::compute;
}

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
    stream_ = stream;
    needed_mask_ = 0;
    return ++issued_[stream_];
  }
  void read(std::int32_t instance) {
    Use& use = uses_[instance];
    need(use.writer, use.written);
    use.readers[stream_] = issued_[stream_];
    use.reader_mask |= bit_of(stream_);
  }
  void write(std::int32_t instance) {
    Use& use = uses_[instance];
    need(use.writer, use.written);
    each_of(use.reader_mask, [&](StreamId s) { need(s, use.readers[s]); });
    use.reader_mask = 0;
    use.writer = stream_;
    use.written = issued_[stream_];
  }
  /// The op takes over memory that earlier compute may still be using: it waits for all compute issued so far.
  void after_all(StreamId other) { need(other, issued_[other]); }

  /// Calls wait(stream, sequence) for each wait that this op adds to what its stream knows to be done: by its own
  /// waits, and by what the ops that it waited for had waited for themselves. A wait for compute is for all of it so
  /// far.
  template <class F>
  void finish(F&& wait) {
    if (needed_mask_ == 0) return;
    Clock& known = known_[stream_];
    Clock const before = known;
    each_of(needed_mask_, [&](StreamId s) {
      if (needed_[s] > before[s]) join(known, knowledge_at(s, needed_[s]));
    });
    // Compute's place is marked when somebody waits for it, and that is where it stands by then.
    if ((needed_mask_ & bit_of(compute)) && needed_[compute] > known[compute]) {
      needed_[compute] = issued_[compute];
      join(known, known_[compute]);
    }
    // What another of the needed ops vouches for needs no wait of its own; no two ops vouch for each other.
    each_of(needed_mask_, [&](StreamId s) {
      if (needed_[s] > known[s]) wait(s, needed_[s]);
    });
    each_of(needed_mask_, [&](StreamId s) { known[s] = std::max(known[s], needed_[s]); });
    if (known == before) return;
    History& history = (*histories_)[stream_];
    std::size_t const at = history.count++ % History::kept;
    history.sequences[at] = issued_[stream_], history.known[at] = known;
  }
  std::int64_t issued(StreamId stream) const { return issued_[stream]; }

 private:
  /// Two cache lines, of which most ops need the first.
  struct alignas(64) Use {
    std::int64_t written = 0;
    std::uint16_t reader_mask = 0;
    StreamId writer = StreamId::compute;
    EnumArray<StreamId, std::int64_t> readers;  ///< of the streams in the mask
  };
  static_assert(stream_count <= 16);

  static constexpr StreamId compute = StreamId::compute;

  /// By stream: the last op of it that is known to be done. Padded to whole vectors.
  struct alignas(64) Clock : std::array<std::int64_t, 16> {
    using std::array<std::int64_t, 16>::operator[];
    std::int64_t& operator[](StreamId stream) { return (*this)[static_cast<std::uint8_t>(stream)]; }
    std::int64_t operator[](StreamId stream) const { return (*this)[static_cast<std::uint8_t>(stream)]; }
  };
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
  Clock const& knowledge_at(StreamId stream, std::int64_t sequence) const {
    static constexpr Clock nothing{};
    History const& history = (*histories_)[stream];
    for (std::size_t back = 1; back <= std::min(history.count, History::kept); ++back) {
      std::size_t const at = (history.count - back) % History::kept;
      if (history.sequences[at] <= sequence) return history.known[at];
    }
    return nothing;
  }

  void need(StreamId stream, std::int64_t sequence) {
    if (stream == stream_ || sequence <= known_[stream_][stream]) return;
    std::uint16_t const bit = bit_of(stream);
    needed_[stream] = needed_mask_ & bit ? std::max(needed_[stream], sequence) : sequence;
    needed_mask_ |= bit;
  }

  static std::uint16_t bit_of(StreamId stream) {
    return static_cast<std::uint16_t>(1u << static_cast<unsigned>(stream));
  }
  /// Calls f(stream) for those of a mask.
  template <class F>
  static void each_of(std::uint16_t mask, F&& f) {
    for (unsigned left = mask; left != 0; left &= left - 1) f(static_cast<StreamId>(std::countr_zero(left)));
  }

  std::vector<Use> uses_;
  Clock issued_{}, needed_{};
  EnumArray<StreamId, Clock> known_{};
  std::unique_ptr<EnumArray<StreamId, History>> histories_ = std::make_unique<EnumArray<StreamId, History>>();
  StreamId stream_ = compute;
  std::uint16_t needed_mask_ = 0;  ///< streams whose entry in needed_ counts
};

}  // namespace shardbench
