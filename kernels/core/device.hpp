#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

struct KernelSet;

/// A point in a stream's order that other streams can wait for and, when `timed`, whose time can be read.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the calling thread until the last record() has been reached.
  virtual void synchronize() = 0;
  /// Milliseconds since an arbitrary epoch shared by all events of the device; valid after synchronize().
  virtual double time_ms() const = 0;
};

/// An ordered queue of work on a device.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Runs `work` in the stream's order. On a GPU `work` itself enqueues and this calls it at once; on the host a
  /// queued stream hands it to its thread and an inline stream runs it before returning.
  virtual void submit(std::function<void()> work) = 0;
  /// Marks this point of the stream.
  virtual void record(Event& event) = 0;
  /// Later work in this stream starts after the event's last record.
  virtual void wait(Event& event) = 0;
  /// Blocks the calling thread until all submitted work is done; rethrows what the work threw.
  virtual void synchronize() = 0;
  /// cudaStream_t on a GPU, nullptr on the host.
  virtual void* native() = 0;
};

/// Work of several streams that was captured once and starts as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Enqueues all of it on `stream`.
  virtual void launch(Stream& stream) = 0;
};

/// `compute` streams run kernels in the caller's order; `comm` streams progress on their own.
enum class StreamKind { compute, comm };

/// What is known of a device, for report columns.
struct DeviceInfo {
  std::string name;              ///< "Intel(R) Xeon(R) ...", "NVIDIA H100 80GB HBM3"
  std::string backend;           ///< "cpu", "cuda", "cuda-emulated"
  double memory_bytes = 0;       ///< total device memory (host: physical memory)
  double free_memory_bytes = 0;  ///< free at the time of asking
  double stream_bytes = 0;       ///< device memory that each compute stream takes for itself (workspace, scratch)
};

/// How a device is running at the moment; empty where nobody can tell.
struct DeviceState {
  std::optional<double> clock_mhz;  ///< clock of the multiprocessors
  std::optional<double> power_w;    ///< power draw of the whole device
  std::optional<bool> throttled;    ///< clocks are held down by power or heat
  std::string throttle_reasons;     ///< "power cap, thermal"; empty when not throttled
};

/// One device of one rank: memory, streams, events and the kernels that run there.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  virtual KernelSet const& kernels() const = 0;
  virtual std::unique_ptr<Stream> make_stream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> make_event(bool timed) = 0;
  /// Device memory, at least 256-byte aligned. Throws OutOfMemory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;
  /// Stream-ordered copies and fills; host pointers must stay valid until the stream has passed.
  virtual void copy_from_host(void* device, void const* host, std::size_t bytes, Stream& stream) = 0;
  virtual void copy_to_host(void* host, void const* device, std::size_t bytes, Stream& stream) = 0;
  virtual void copy(void* to, void const* from, std::size_t bytes, Stream& stream) = 0;
  virtual void fill_bytes(void* device, int value, std::size_t bytes, Stream& stream) = 0;
  /// Waits for everything submitted to any stream of the device.
  virtual void synchronize() = 0;
  /// Why work cannot be captured as a graph here, in words; empty when it can.
  virtual std::string graph_problem() const { return "a CPU has no graphs of work"; }
  /// Captures what the function puts on the stream and on streams that it makes wait for that one, which must wait for
  /// them in turn; nothing runs. Throws Error where graph_problem() says so, or when the work cannot be captured.
  virtual std::unique_ptr<Graph> capture(Stream&, std::function<void()> const&) { throw Error(graph_problem()); }
  /// Clock, power and throttling; all empty where the back end cannot tell.
  virtual DeviceState state() { return {}; }
  /// A profiler that was told to wait (nsys --capture-range=cudaProfilerApi) records from start to stop.
  virtual void profile_start() {}
  virtual void profile_stop() {}
};

/// The CPU of this process: kernels run on the calling thread, comm streams on threads of their own.
std::unique_ptr<Device> make_host_device();

}  // namespace shardbench
