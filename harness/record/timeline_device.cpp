#include <atomic>
#include <memory>

#include "harness/record/timeline.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Marks are timed events of the device, read only in resolve(), so a span never waits for the stream it measures.
class DeviceTimeline final : public Timeline {
 public:
  DeviceTimeline(Device& device, std::size_t max_spans)
      : device_(device), clock_stream_(device.make_stream(StreamKind::comm)), now_(device.make_event(true)) {
    slots_.resize(max_spans);
    for (Slot& slot : slots_) slot.start = device.make_event(true), slot.end = device.make_event(true);
  }

  std::size_t open(Lane lane, std::uint32_t label, std::int32_t microbatch, Stream& stream) final {
    std::size_t const index = next_.fetch_add(1);
    if (index >= slots_.size()) return index;  // resolve() tells
    Slot& slot = slots_[index];
    slot.span = {lane, label, microbatch, 0, 0};
    slot.closed = false;
    stream.record(*slot.start);
    return index;
  }

  void close(std::size_t handle, Stream& stream) final {
    if (handle >= slots_.size()) return;
    stream.record(*slots_[handle].end);
    slots_[handle].closed = true;
  }

  double now_ms() final {
    clock_stream_->record(*now_);
    now_->synchronize();
    return now_->time_ms();
  }

  std::vector<Span> resolve() final {
    device_.synchronize();
    std::size_t const opened = next_.load();
    VALIDATE(opened <= slots_.size(), std::to_string(opened - slots_.size()) + " spans were dropped (room for " +
                                          std::to_string(slots_.size()) + ")");
    std::vector<Span> spans;
    for (std::size_t i = 0; i < opened; ++i) {
      Slot& slot = slots_[i];
      VALIDATE(slot.closed, "span " + std::to_string(i) + " was never closed");
      slot.span.start_ms = slot.start->time_ms();
      slot.span.end_ms = slot.end->time_ms();
      spans.push_back(slot.span);
    }
    return spans;
  }

  void clear() final { next_.store(0); }

 private:
  struct Slot {
    Span span;
    std::unique_ptr<Event> start, end;
    bool closed = false;
  };
  Device& device_;
  std::unique_ptr<Stream> clock_stream_;
  std::unique_ptr<Event> now_;
  std::vector<Slot> slots_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace

std::unique_ptr<Timeline> make_device_timeline(Device& device, std::size_t max_spans) {
  return std::make_unique<DeviceTimeline>(device, max_spans);
}

}  // namespace shardbench
