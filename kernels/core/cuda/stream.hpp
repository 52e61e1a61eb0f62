#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/core/cuda/check.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// A failure found by another thread (NCCL's watchdog); whoever waits for the device next throws it.
class DeviceFault {
 public:
  /// The first fault is kept.
  void raise(std::string const& message);
  /// Throws Error when a fault was raised.
  void check() const;

 private:
  std::atomic<bool> raised_{false};
  mutable std::mutex mutex_;
  std::string message_;
};

/// Device memory that one compute stream's kernels may use between their own launches.
struct Scratch {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// What a library (cuBLASLt) keeps for one stream.
class StreamLibraryState {
 public:
  virtual ~StreamLibraryState() = default;
};

/// The epoch of timed events. Re-based every second, since CUDA gives differences as float milliseconds.
class CudaClock {
 public:
  CudaClock();
  ~CudaClock();
  CudaClock(CudaClock const&) = delete;
  CudaClock& operator=(CudaClock const&) = delete;
  struct Epoch {
    cudaEvent_t event = nullptr;
    double offset_ms = 0;
    double host_ms = 0;
    ~Epoch();
  };
  /// An epoch that is past on the device and at most about a second old.
  std::shared_ptr<Epoch const> current();

 private:
  std::shared_ptr<Epoch> record_epoch() const;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Epoch> epoch_;
  std::mutex mutex_;
};

/// What streams and events of one device share.
struct CudaContext {
  int ordinal = 0;
  CudaClock clock;
  DeviceFault fault;
};

/// A non-blocking CUDA stream. Compute streams own a scratch for GEMM workspace and one for other kernels.
class CudaStream final : public Stream {
 public:
  CudaStream(std::shared_ptr<CudaContext> context, StreamKind kind, std::size_t workspace_bytes,
             std::size_t scratch_bytes);
  ~CudaStream() override;
  CudaStream(CudaStream const&) = delete;
  CudaStream& operator=(CudaStream const&) = delete;
  void submit(std::function<void()> work) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void* native() override { return stream_; }
  cudaStream_t get() const { return stream_; }
  CudaContext& context() const { return *context_; }
  /// cuBLASLt's workspace; empty on comm streams.
  Scratch workspace() const { return workspace_; }
  /// Partial sums and attention scores. Throws on comm streams, which have none.
  Scratch scratch() const;
  std::unique_ptr<StreamLibraryState> library_state;    ///< owned by gemm_cuda.cpp
  std::unique_ptr<StreamLibraryState> attention_state;  ///< owned by attention_cudnn_cuda.cpp

 private:
  std::shared_ptr<CudaContext> context_;
  cudaStream_t stream_ = nullptr;
  Scratch workspace_, scratch_;
};

/// A CUDA event; untimed ones are cheaper.
class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<CudaContext> context, bool timed);
  ~CudaEvent() override;
  CudaEvent(CudaEvent const&) = delete;
  CudaEvent& operator=(CudaEvent const&) = delete;
  void record_on(cudaStream_t stream);
  void wait_on(cudaStream_t stream);
  void synchronize() override;
  double time_ms() const override;

 private:
  std::shared_ptr<CudaContext> context_;
  bool timed_;
  cudaEvent_t event_ = nullptr;
  std::shared_ptr<CudaClock::Epoch const> epoch_;
};

/// The CUDA stream behind a contract's Stream; kernels of this back end take no other.
inline CudaStream& cuda_stream(Stream& stream) { return static_cast<CudaStream&>(stream); }

/// One GPU. NCCL needs the shared context for its watchdog.
class CudaDevice final : public Device {
 public:
  /// Throws Error when there is no driver or no such GPU.
  explicit CudaDevice(int ordinal);
  DeviceInfo info() const override;
  KernelSet const& kernels() const override;
  std::unique_ptr<Stream> make_stream(StreamKind kind) override;
  std::unique_ptr<Event> make_event(bool timed) override;
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override;
  void copy_from_host(void* device, void const* host, std::size_t bytes, Stream& stream) override;
  void copy_to_host(void* host, void const* device, std::size_t bytes, Stream& stream) override;
  void copy(void* to, void const* from, std::size_t bytes, Stream& stream) override;
  void fill_bytes(void* device, int value, std::size_t bytes, Stream& stream) override;
  void synchronize() override;
  std::string graph_problem() const override;
  std::unique_ptr<Graph> capture(Stream& origin, std::function<void()> const& enqueue) override;
  DeviceState state() override;
  void profile_start() override;
  void profile_stop() override;
  std::shared_ptr<CudaContext> context() const { return context_; }
  /// "0000:3b:00.0".
  std::string bus_id() const;
  /// "query-blocks" (from the start) or "cudnn". Throws IllegalConfig saying why that one cannot be had.
  void choose_attention(std::string const& kernel);

 private:
  int ordinal_;
  std::shared_ptr<CudaContext> context_;
  bool fused_attention_ = false;
};

/// "cuda", or what the emulated runtime calls itself: each build links its own.
std::string_view cuda_backend_name();

}  // namespace shardbench
