#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/record/lane.hpp"
#include "kernels/core/device.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

/// One interval of one rank. `label` indexes whatever table the owner keeps (op labels).
struct Span {
  Lane lane = Lane::compute;
  std::uint32_t label = 0;
  std::int32_t microbatch = -1;
  double start_ms = 0;
  double end_ms = 0;
};

/// Where time went on one rank in one step. Exact: step = compute + exposed_comm + idle (design: Execution).
struct Breakdown {
  double step_ms = 0;
  double compute_ms = 0;                      ///< union of compute spans
  double comm_ms = 0;                         ///< union of communication spans
  double exposed_comm_ms = 0;                 ///< union of communication minus compute
  double idle_ms = 0;                         ///< the rest
  double bubble_ms = 0;                       ///< idle while a pipeline receive is awaited
  EnumArray<Lane, double> comm_axis_ms{};     ///< union per axis
  EnumArray<Lane, double> exposed_axis_ms{};  ///< shares of exposed_comm_ms; axes in flight share equally

  /// Every part times a factor, added to this.
  void add(Breakdown const& other, double factor);
  /// Calls f(part) for each of the times.
  template <class F>
  void each(F&& f) {
    for (double* const part : {&step_ms, &compute_ms, &comm_ms, &exposed_comm_ms, &idle_ms, &bubble_ms}) f(*part);
    for (double& part : comm_axis_ms) f(part);
    for (double& part : exposed_axis_ms) f(part);
  }
};

/// `waits`: intervals during which a pipeline receive was awaited (they count as bubble where nothing else runs).
Breakdown break_down(std::vector<Span> const& spans, std::vector<Span> const& waits, double start_ms, double end_ms);

/// Spans of one rank, pre-sized so that marking never allocates; safe from several threads.
class Timeline {
 public:
  virtual ~Timeline() = default;
  /// Opens a span at this point of `stream` and returns its handle.
  virtual std::size_t open(Lane lane, std::uint32_t label, std::int32_t microbatch, Stream& stream) = 0;
  virtual void close(std::size_t handle, Stream& stream) = 0;
  /// Milliseconds on the clock of the spans, now.
  virtual double now_ms() = 0;
  /// The closed spans, in order of opening; waits for the device. Throws when spans were dropped or left open.
  virtual std::vector<Span> resolve() = 0;
  virtual void clear() = 0;
};

/// steady_clock; a span opened from a stream's thread is timed on that thread.
std::unique_ptr<Timeline> make_host_timeline(std::size_t max_spans);

/// Timed events of a GPU on the streams that the spans are opened on.
std::unique_ptr<Timeline> make_device_timeline(Device& device, std::size_t max_spans);

/// NVTX range in domain "shardbench": category = lane, name, payload = bytes or FLOPs. Empty without NVTX headers.
void trace_push(Lane lane, char const* name, double payload) noexcept;
void trace_pop() noexcept;

}  // namespace shardbench
