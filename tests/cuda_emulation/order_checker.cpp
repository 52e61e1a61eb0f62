#include "order_checker.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulation {
namespace {

constexpr std::size_t host = 0;

void join(Clock& into, Clock const& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

OrderChecker& order_checker() {
  static auto* checker = new OrderChecker;  // outlives the streams' threads
  return *checker;
}

std::size_t OrderChecker::add_stream() {
  std::lock_guard const lock(mutex_);
  clocks_.emplace_back();
  return clocks_.size() - 1;
}

/// The stream's clock, with all that the host already knows: it enqueues after what it waited for.
Clock& OrderChecker::clock_of(std::size_t stream) {
  Clock& clock = clocks_[stream];
  join(clock, clocks_[host]);
  if (clock.size() <= stream) clock.resize(stream + 1);
  return clock;
}

void OrderChecker::touch(std::size_t stream, std::vector<Range> const& touched, char const* what) {
  std::lock_guard const lock(mutex_);
  Clock& clock = clock_of(stream);
  Moment const now{stream, ++clock[stream], what};
  for (Range const& range : touched) {
    if (!range.data || range.bytes == 0) continue;
    auto const begin = reinterpret_cast<std::uintptr_t>(range.data), end = begin + range.bytes;
    cover(begin, end);
    for (auto it = segments_.find(begin); it != segments_.end() && it->first < end; ++it) {
      Segment& segment = it->second;
      if (!ordered(segment.write, clock)) report(segment.write, true, now, range.write);
      if (range.write) {
        for (Moment const& read : segment.reads)
          if (!ordered(read, clock)) report(read, false, now, true);
        segment.write = now;
        segment.reads.clear();
      } else {
        std::erase_if(segment.reads, [&](Moment const& read) { return read.stream == stream; });
        segment.reads.push_back(now);
      }
    }
  }
}

Clock OrderChecker::record(std::size_t stream) {
  std::lock_guard const lock(mutex_);
  return clock_of(stream);
}

void OrderChecker::wait(std::size_t stream, Clock const& event) {
  std::lock_guard const lock(mutex_);
  join(clock_of(stream), event);
}

void OrderChecker::host_waits_for_stream(std::size_t stream) {
  std::lock_guard const lock(mutex_);
  join(clocks_[host], Clock(clocks_[stream]));
}

void OrderChecker::host_waits_for_event(Clock const& event) {
  std::lock_guard const lock(mutex_);
  join(clocks_[host], event);
}

void OrderChecker::forget(void const* data, std::size_t bytes) {
  std::lock_guard const lock(mutex_);
  auto const begin = reinterpret_cast<std::uintptr_t>(data), end = begin + bytes;
  auto const first = split(begin), last = split(end);
  segments_.erase(first, last);
}

std::vector<std::string> OrderChecker::take_races() {
  std::lock_guard const lock(mutex_);
  return std::exchange(races_, {});
}

/// Makes `at` a boundary; the first segment at or after it.
OrderChecker::Segments::iterator OrderChecker::split(std::uintptr_t at) {
  auto next = segments_.lower_bound(at);
  if (next == segments_.begin() || (next != segments_.end() && next->first == at)) return next;
  auto const before = std::prev(next);
  if (before->second.end <= at) return next;
  Segment rest = before->second;
  before->second.end = at;
  return segments_.emplace_hint(next, at, std::move(rest));
}

/// Makes segments that fill [begin, end) exactly.
void OrderChecker::cover(std::uintptr_t begin, std::uintptr_t end) {
  split(begin);
  split(end);
  std::uintptr_t at = begin;
  while (at < end) {
    auto const next = segments_.lower_bound(at);
    if (next != segments_.end() && next->first == at) {
      at = next->second.end;
      continue;
    }
    std::uintptr_t const stop = next == segments_.end() ? end : std::min(end, next->first);
    segments_.emplace_hint(next, at, Segment{stop, {}, {}});
    at = stop;
  }
}

bool OrderChecker::ordered(Moment const& earlier, Clock const& now) const {
  return earlier.tick == 0 || (earlier.stream < now.size() && now[earlier.stream] >= earlier.tick);
}

void OrderChecker::report(Moment const& earlier, bool earlier_writes, Moment const& later, bool later_writes) {
  auto const describe = [](Moment const& m, bool writes) {
    return std::string(writes ? "write" : "read") + " by a " + m.what + " on stream " + std::to_string(m.stream);
  };
  std::string const message =
      describe(later, later_writes) + " is not ordered after the " + describe(earlier, earlier_writes);
  char const* mode = std::getenv("SHARDBENCH_EMU_RACES");
  if (mode && std::strcmp(mode, "abort") == 0) {
    std::fprintf(stderr, "emulated GPU: %s\n", message.c_str());
    std::abort();
  }
  if (std::find(races_.begin(), races_.end(), message) == races_.end()) races_.push_back(message);
}

}  // namespace emulation
