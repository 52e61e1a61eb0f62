#include <chrono>

#include "kernels/core/cuda/stream.hpp"

namespace shardbench {
namespace {

constexpr double rebase_after_ms = 1000;

double host_now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void DeviceFault::raise(std::string const& message) {
  std::lock_guard const lock(mutex_);
  if (raised_) return;
  message_ = message;
  raised_ = true;
}

void DeviceFault::check() const {
  if (!raised_) return;
  std::lock_guard const lock(mutex_);
  throw Error(message_);
}

CudaClock::Epoch::~Epoch() {
  if (event) static_cast<void>(cudaEventDestroy(event));
}

CudaClock::CudaClock() {
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  epoch_ = record_epoch();
}

CudaClock::~CudaClock() { static_cast<void>(cudaStreamDestroy(stream_)); }

std::shared_ptr<CudaClock::Epoch> CudaClock::record_epoch() const {
  auto epoch = std::make_shared<Epoch>();
  CUDA_CHECK(cudaEventCreateWithFlags(&epoch->event, cudaEventDefault));
  CUDA_CHECK(cudaEventRecord(epoch->event, stream_));
  CUDA_CHECK(cudaEventSynchronize(epoch->event));
  epoch->host_ms = host_now_ms();
  return epoch;
}

std::shared_ptr<CudaClock::Epoch const> CudaClock::current() {
  std::lock_guard const lock(mutex_);
  if (host_now_ms() - epoch_->host_ms > rebase_after_ms) {
    auto next = record_epoch();
    float since = 0;
    CUDA_CHECK(cudaEventElapsedTime(&since, epoch_->event, next->event));
    next->offset_ms = epoch_->offset_ms + static_cast<double>(since);
    epoch_ = std::move(next);
  }
  return epoch_;
}

CudaStream::CudaStream(std::shared_ptr<CudaContext> context, StreamKind kind, std::size_t workspace_bytes,
                       std::size_t scratch_bytes)
    : context_(std::move(context)) {
  // Comm streams get the higher priority: a collective that starts late delays every rank, a GEMM only this one.
  int least = 0, greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  int const priority = kind == StreamKind::comm ? greatest : least;
  if (kind == StreamKind::compute) {
    void* memory = nullptr;
    CUDA_CHECK(cudaMalloc(&memory, workspace_bytes + scratch_bytes));
    workspace_ = {static_cast<std::byte*>(memory), workspace_bytes};
    scratch_ = {workspace_.data + workspace_bytes, scratch_bytes};
  }
  cudaError_t const created = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority);
  if (created != cudaSuccess) static_cast<void>(cudaFree(workspace_.data));
  CUDA_CHECK(created);
}

CudaStream::~CudaStream() {
  static_cast<void>(cudaStreamSynchronize(stream_));
  library_state.reset();
  attention_state.reset();
  static_cast<void>(cudaStreamDestroy(stream_));
  static_cast<void>(cudaFree(workspace_.data));
}

void CudaStream::submit(std::function<void()> work) { work(); }
void CudaStream::record(Event& event) { static_cast<CudaEvent&>(event).record_on(stream_); }
void CudaStream::wait(Event& event) { static_cast<CudaEvent&>(event).wait_on(stream_); }

void CudaStream::synchronize() {
  cudaError_t const code = cudaStreamSynchronize(stream_);
  context_->fault.check();  // the reason, before CUDA's consequence of it
  CUDA_CHECK(code);
}

Scratch CudaStream::scratch() const {
  VALIDATE(scratch_.data, "this kernel needs a compute stream (comm streams have no scratch memory)");
  return scratch_;
}

CudaEvent::CudaEvent(std::shared_ptr<CudaContext> context, bool timed) : context_(std::move(context)), timed_(timed) {
  CUDA_CHECK(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void CudaEvent::record_on(cudaStream_t stream) {
  if (timed_) epoch_ = context_->clock.current();
  CUDA_CHECK(cudaEventRecord(event_, stream));
}

void CudaEvent::wait_on(cudaStream_t stream) { CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }

void CudaEvent::synchronize() {
  cudaError_t const code = cudaEventSynchronize(event_);
  context_->fault.check();
  CUDA_CHECK(code);
}

double CudaEvent::time_ms() const {
  VALIDATE(timed_, "time_ms of an event made without timing");
  VALIDATE(epoch_, "time_ms of an event that was never recorded");
  float since = 0;
  CUDA_CHECK(cudaEventElapsedTime(&since, epoch_->event, event_));
  return epoch_->offset_ms + static_cast<double>(since);
}

}  // namespace shardbench
