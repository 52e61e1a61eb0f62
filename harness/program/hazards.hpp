#pragma once
#include <array>
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
    needed_.fill(0);
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
    for (std::size_t s = 0; use.reader_mask >> s; ++s)
      if (use.reader_mask >> s & 1u) need(static_cast<std::uint8_t>(s), use.readers[s]);
    use.reader_mask = 0;
    use.writer = static_cast<std::uint8_t>(stream_);
    use.written = issued_[stream_];
  }
  /// The op takes over memory that earlier compute may still be using: it waits for all compute issued so far.
  void after_all(StreamId other) { need(static_cast<std::uint8_t>(other), issued_[static_cast<std::size_t>(other)]); }

  /// Calls wait(stream, sequence) for each wait that this op adds to what its stream has already waited for.
  template <class F>
  void finish(F&& wait) {
    for (std::size_t s = 0; s < stream_count; ++s) {
      if (needed_[s] <= known_[stream_][s]) continue;
      known_[stream_][s] = needed_[s];
      wait(static_cast<StreamId>(s), needed_[s]);
    }
  }
  std::int64_t issued(StreamId stream) const { return issued_[static_cast<std::size_t>(stream)]; }

 private:
  struct Use {
    std::int64_t written = 0;
    std::array<std::int64_t, stream_count> readers{};
    std::uint16_t reader_mask = 0;
    std::uint8_t writer = 0;
  };
  static_assert(stream_count <= 16);

  void need(std::uint8_t stream, std::int64_t sequence) {
    if (stream != stream_ && sequence > needed_[stream]) needed_[stream] = sequence;
  }

  std::vector<Use> uses_;
  std::array<std::int64_t, stream_count> issued_{}, needed_{};
  std::array<std::array<std::int64_t, stream_count>, stream_count> known_{};
  std::size_t stream_ = 0;
};

}  // namespace shardbench
