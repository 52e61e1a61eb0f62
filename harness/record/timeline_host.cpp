#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>

#include "harness/record/timeline.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

// Slots are handed out by one atomic counter, so threads never touch the same slot and marking takes no lock.
class HostTimeline final : public Timeline {
 public:
  explicit HostTimeline(std::size_t max_spans)
      : capacity_(max_spans), slots_(std::make_unique<Slot[]>(max_spans)), epoch_(clock::now()) {}

  std::size_t open(Lane lane, std::uint32_t label, std::int32_t microbatch, Stream&) final {
    std::size_t const index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= capacity_) return dropped;  // resolve() tells
    slots_[index].span = {lane, label, microbatch, now_ms(), 0};
    return index;
  }

  void close(std::size_t handle, Stream&) final {
    double const now = now_ms();
    if (handle == dropped) return;
    VALIDATE(handle < capacity_, "closing a span that this timeline never opened");
    Slot& slot = slots_[handle];
    slot.span.end_ms = now;
    slot.closed.store(true, std::memory_order_release);
  }

  double now_ms() final { return std::chrono::duration<double, std::milli>(clock::now() - epoch_).count(); }

  std::vector<Span> resolve() final {
    std::size_t const opened = next_.load();
    VALIDATE(opened <= capacity_,
             std::to_string(opened - capacity_) + " spans were dropped (room for " + std::to_string(capacity_) + ")");
    std::vector<Span> spans;
    spans.reserve(opened);
    for (std::size_t i = 0; i < opened; ++i) {
      VALIDATE(slots_[i].closed.load(std::memory_order_acquire), "span " + std::to_string(i) + " was never closed");
      spans.push_back(slots_[i].span);
    }
    return spans;
  }

  void clear() final {
    std::size_t const used = std::min(next_.load(), capacity_);
    for (std::size_t i = 0; i < used; ++i) slots_[i].closed.store(false, std::memory_order_relaxed);
    next_.store(0);
  }

 private:
  using clock = std::chrono::steady_clock;
  struct Slot {
    Span span;
    std::atomic<bool> closed{false};
  };
  static constexpr std::size_t dropped = std::numeric_limits<std::size_t>::max();
  std::size_t capacity_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::size_t> next_{0};
  clock::time_point epoch_;
};

}  // namespace

std::unique_ptr<Timeline> make_host_timeline(std::size_t max_spans) {
  return std::make_unique<HostTimeline>(max_spans);
}

}  // namespace shardbench
