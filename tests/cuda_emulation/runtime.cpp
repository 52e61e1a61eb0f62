// The runtime calls: streams are threads, events are counters.
#include "runtime.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "cuda_profiler_api.h"
#include "fibers.hpp"
#include "kernels/core/cuda/access.hpp"
#include "order_checker.hpp"

namespace emulation {

int from_environment(char const* name) {
  char const* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

namespace {

struct Settings {
  std::atomic<unsigned> delay_seed{static_cast<unsigned>(from_environment("SHARDBENCH_EMU_DELAY_SEED"))};
  std::atomic<int> waits_until_drop{from_environment("SHARDBENCH_EMU_DROP_WAIT")};
  std::atomic<int> waits{0};
  std::atomic<int> profiled{0};
  std::atomic<bool> profiling{false};
  std::array<std::atomic<int>, static_cast<std::size_t>(Fault::size_)> calls_until_fault{};
  Settings();
};

Settings::Settings() {
  char const* text = std::getenv("SHARDBENCH_EMU_FAULT");
  if (!text) return;
  constexpr char const* names[] = {"allocation", "launch", "matmul", "nccl_error", "nccl_hang"};
  std::string const all = text;
  auto const colon = all.find(':');
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (all.substr(0, colon) == names[i]) {
      calls_until_fault[i] = colon == std::string::npos ? 1 : std::atoi(text + colon + 1);
      return;
    }
  std::fprintf(stderr, "SHARDBENCH_EMU_FAULT=%s: no such fault\n", text);
  std::exit(2);
}

Settings& settings() {
  static auto* settings = new Settings;
  return *settings;
}

/// True at the call that brings an armed countdown to zero.
bool count_down(std::atomic<int>& counter) {
  int left = counter;
  while (left > 0)
    if (counter.compare_exchange_weak(left, left - 1)) return left == 1;
  return false;
}

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

/// What an event and the queued ops that name it share.
struct EventState {
  std::mutex mutex;
  std::condition_variable reached;
  std::uint64_t recorded = 0, completed = 0;
  double time_ms = 0;
  Clock clock;
  void wait_for(std::uint64_t record) {
    std::unique_lock lock(mutex);
    reached.wait(lock, [&] { return completed >= record; });
  }
  std::uint64_t last_record() {
    std::lock_guard const lock(mutex);
    return recorded;
  }
};

}  // namespace
}  // namespace emulation

using namespace emulation;

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  bool timed = true;
};

struct CUstream_st {
  CUstream_st() : number(order_checker().add_stream()), thread([this] { serve(); }) {}
  ~CUstream_st() {
    {
      std::lock_guard const lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }
  void push(std::function<void()> work) {
    {
      std::lock_guard const lock(mutex);
      queue.push_back(std::move(work));
      ++submitted;
    }
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this, target = submitted] { return done >= target; });
  }

  std::size_t const number;

 private:
  void serve() {
    std::minstd_rand random(settings().delay_seed + static_cast<unsigned>(number));
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stopping || !queue.empty(); });
        if (queue.empty()) return;
        work = std::move(queue.front());
        queue.pop_front();
      }
      if (settings().delay_seed != 0 && random() % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
      work();
      {
        std::lock_guard const lock(mutex);
        ++done;
      }
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::uint64_t submitted = 0, done = 0;
  bool stopping = false;
  std::thread thread;
};

namespace emulation {
namespace {

struct Streams {
  std::mutex mutex;
  std::set<cudaStream_t> live;
};

Streams& streams() {
  static auto* streams = new Streams;
  return *streams;
}

bool is_live(cudaStream_t stream) {
  std::lock_guard const lock(streams().mutex);
  return streams().live.contains(stream);
}

/// Kernels say what they touch through the product's hook, just before they are launched.
void observe_kernel(void* stream, shardbench::Access const* accesses, std::size_t count) {
  auto* const native = static_cast<cudaStream_t>(stream);
  if (!is_live(native)) return;
  std::vector<Range> touched;
  for (std::size_t i = 0; i < count; ++i) touched.push_back({accesses[i].data, accesses[i].bytes, accesses[i].write});
  order_checker().touch(native->number, touched, "kernel");
}

[[maybe_unused]] bool const observing = [] {
  shardbench::access_observer = observe_kernel;
  return true;
}();

}  // namespace

void inject_fault(Fault fault, int nth) { settings().calls_until_fault[static_cast<std::size_t>(fault)] = nth; }
bool fails_now(Fault fault) { return count_down(settings().calls_until_fault[static_cast<std::size_t>(fault)]); }
void drop_wait(int nth) { settings().waits_until_drop = nth; }
int waits_issued() { return settings().waits; }
int profiled_ranges() { return settings().profiled; }
bool profiling() { return settings().profiling; }
void set_delay_seed(unsigned seed) { settings().delay_seed = seed; }
std::vector<std::string> take_races() { return order_checker().take_races(); }

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, std::vector<Range> const& touched,
                    char const* what) {
  if (!is_live(stream)) return cudaErrorInvalidResourceHandle;
  order_checker().touch(stream->number, touched, what);
  stream->push(std::move(work));
  return cudaSuccess;
}

cudaError_t launch_kernel(cudaLaunchConfig_t const& config, std::function<void()> thread) {
  dim3 const grid = config.gridDim, block = config.blockDim;
  unsigned const threads = block.x * block.y * block.z;
  bool const legal = threads > 0 && threads <= 1024 && threads % 32 == 0 && grid.x > 0 && grid.x <= 0x7fffffffu &&
                     grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
  if (!legal) return cudaErrorInvalidConfiguration;
  if (fails_now(Fault::launch)) return cudaErrorLaunchFailure;
  unsigned const order = settings().delay_seed;
  return enqueue(
      config.stream, [=] { run_grid(grid, block, thread, order); }, {}, "kernel");
}

}  // namespace emulation

cudaError_t cudaProfilerStart() {
  settings().profiling = true;
  ++settings().profiled;
  return cudaSuccess;
}

cudaError_t cudaProfilerStop() {
  settings().profiling = false;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  std::set<cudaStream_t> live;
  {
    std::lock_guard const lock(streams().mutex);
    live = streams().live;
  }
  for (cudaStream_t stream : live) cudaStreamSynchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  bool const to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool const from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (in_device_memory(to, bytes) != to_device || in_device_memory(from, bytes) != from_device)
    return cudaErrorInvalidValue;
  return enqueue(
      stream, [=] { std::memmove(to, from, bytes); }, {{from, bytes, false}, {to, bytes, true}}, "copy");
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (!in_device_memory(pointer, bytes)) return cudaErrorInvalidValue;
  return enqueue(
      stream, [=] { std::memset(pointer, value, bytes); }, {{pointer, bytes, true}}, "fill");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  std::lock_guard const lock(streams().mutex);
  streams().live.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    std::lock_guard const lock(streams().mutex);
    if (streams().live.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!is_live(stream)) return cudaErrorInvalidResourceHandle;
  stream->drain();
  order_checker().host_waits_for_stream(stream->number);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!is_live(stream)) return cudaErrorInvalidResourceHandle;
  ++settings().waits;
  // A wait left out gives no order, but is still waited for: the checker judges, and counts that a kernel reads as
  // sizes stay whole.
  if (!count_down(settings().waits_until_drop)) order_checker().wait(stream->number, event->state->clock);
  stream->push([state = event->state, record = event->state->last_record()] { state->wait_for(record); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!is_live(stream)) return cudaErrorInvalidResourceHandle;
  std::uint64_t record = 0;
  {
    std::lock_guard const lock(event->state->mutex);
    record = ++event->state->recorded;
    event->state->clock = order_checker().record(stream->number);
  }
  stream->push([state = event->state, record] {
    {
      std::lock_guard const lock(state->mutex);
      state->completed = std::max(state->completed, record);
      state->time_ms = now_ms();
    }
    state->reached.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  event->state->wait_for(event->state->last_record());
  order_checker().host_waits_for_event(event->state->clock);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard const lock(event->state->mutex);
  return event->state->completed >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  if (!start->timed || !stop->timed) return cudaErrorInvalidResourceHandle;
  if (cudaEventQuery(start) != cudaSuccess || cudaEventQuery(stop) != cudaSuccess) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(stop->state->time_ms - start->state->time_ms);
  return cudaSuccess;
}
