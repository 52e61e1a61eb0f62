#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace emulation {

/// Vector clocks: entry i is the last op of stream i that is known to come before. Stream 0 is the host.
using Clock = std::vector<std::uint64_t>;

/// Finds pairs of ops that touch one byte, at least one of them writing, with no chain of stream order, events and host
/// waits between them. All is judged when ops are enqueued, so a finding never depends on how threads happened to run.
class OrderChecker {
 public:
  /// A new stream's number.
  std::size_t add_stream();
  void touch(std::size_t stream, std::vector<Range> const& touched, char const* what);
  Clock record(std::size_t stream);
  void wait(std::size_t stream, Clock const& event);
  void host_waits_for_stream(std::size_t stream);
  void host_waits_for_event(Clock const& event);
  /// Memory that was freed starts a new life.
  void forget(void const* data, std::size_t bytes);
  std::vector<std::string> take_races();

 private:
  struct Moment {
    std::size_t stream = 0;
    std::uint64_t tick = 0;
    char const* what = "";
  };
  struct Segment {
    std::uintptr_t end = 0;
    Moment write;
    std::vector<Moment> reads;
  };
  using Segments = std::map<std::uintptr_t, Segment>;
  Segments::iterator split(std::uintptr_t at);
  void cover(std::uintptr_t begin, std::uintptr_t end);
  bool ordered(Moment const& earlier, Clock const& now) const;
  void report(Moment const& earlier, bool earlier_writes, Moment const& later, bool later_writes);
  Clock& clock_of(std::size_t stream);

  std::mutex mutex_;
  std::vector<Clock> clocks_{Clock{}};
  Segments segments_;
  std::vector<std::string> races_;
};

OrderChecker& order_checker();

}  // namespace emulation
