#include "harness/comm/watchdog_nccl.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardbench {
namespace {

constexpr auto look_every = std::chrono::milliseconds(20);

/// "300 s" of a duration.
std::string in_seconds(std::chrono::duration<double> duration) {
  std::string text = std::to_string(duration.count());
  text.erase(text.find('.') + 2);
  return text + " s";
}

}  // namespace

void nccl_check(ncclResult_t code, ncclComm_t comm, char const* call, char const* file, int line) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  char const* const detail = ncclGetLastError(comm);
  throw_error(
      file, line,
      std::string(call) + " failed (" + ncclGetErrorString(code) + (detail ? ": " : "") + (detail ? detail : "") + ")");
}

NcclWatchdog::NcclWatchdog(std::shared_ptr<CudaContext> context, double timeout_seconds)
    : context_(std::move(context)), timeout_(timeout_seconds), thread_([this] { serve(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
  for (auto const& [stream, watch] : watches_) {
    static_cast<void>(cudaEventDestroy(watch.watched));
    static_cast<void>(cudaEventDestroy(watch.latest));
  }
}

void NcclWatchdog::add(ncclComm_t comm) {
  std::lock_guard const lock(mutex_);
  comms_.insert(comm);
}

void NcclWatchdog::destroy(ncclComm_t comm) {
  // An exception may have left work in flight, which must not lose its communicator; it ends, or is aborted in time.
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    std::lock_guard const lock(mutex_);
    if (!aborted_) look();
    if (aborted_) {  // which has freed it
      comms_.erase(comm);
      return;
    }
    if (std::ranges::any_of(watches_, [](auto const& entry) { return entry.second.pending; })) continue;
    comms_.erase(comm);
    break;
  }
  // Not finalized first: that waits for every rank, and a rank that failed never comes.
  static_cast<void>(ncclCommDestroy(comm));
}

cudaEvent_t NcclWatchdog::make_event() {
  cudaEvent_t event = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

void NcclWatchdog::issued(cudaStream_t stream, char const* call) {
  // An event recorded in a capture cannot be asked for; what watches the graph is watch() at its launch.
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(stream, &capturing));
  if (capturing != cudaStreamCaptureStatusNone) return;
  std::lock_guard const lock(mutex_);
  Watch& watch = watches_[stream];
  if (!watch.watched) {
    watch.watched = make_event();
    watch.latest = make_event();
  }
  CUDA_CHECK(cudaEventRecord(watch.pending ? watch.latest : watch.watched, stream));
  (watch.pending ? watch.latest_call : watch.watched_call) = call;
  watch.has_newer = watch.pending;
  if (!watch.pending) watch.since = Clock::now();
  watch.pending = true;
}

void NcclWatchdog::settle(ncclResult_t code, ncclComm_t comm, char const* call, char const* file, int line) {
  nccl_check(code, comm, call, file, line);
  auto const start = Clock::now();
  while (code == ncclInProgress) {
    check();
    NCCL_CHECK(ncclCommGetAsyncError(comm, &code));
    if (code != ncclInProgress) break;
    if (Clock::now() - start > timeout_) {
      std::lock_guard const lock(mutex_);
      comms_.insert(comm);
      abort_all(std::string("NCCL: ") + call + " made no progress for " + in_seconds(timeout_) + ", aborted");
      break;
    }
    std::this_thread::yield();
  }
  check();
  nccl_check(code, comm, call, file, line);
}

void NcclWatchdog::serve() {
  static_cast<void>(cudaSetDevice(context_->ordinal));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!aborted_) look();
    stop_.wait_for(lock, look_every, [this] { return stopping_; });
  }
}

/// With the mutex held.
void NcclWatchdog::look() {
  for (ncclComm_t comm : comms_) {
    ncclResult_t state = ncclSuccess;
    ncclResult_t const code = ncclCommGetAsyncError(comm, &state);
    if (code == ncclSuccess && (state == ncclSuccess || state == ncclInProgress)) continue;
    return abort_all(std::string("NCCL: asynchronous error (") +
                     ncclGetErrorString(code == ncclSuccess ? state : code) + "), aborted");
  }
  for (auto& [stream, watch] : watches_) {
    if (!watch.pending) continue;
    if (cudaEventQuery(watch.watched) == cudaErrorNotReady) {
      if (Clock::now() - watch.since > timeout_)
        return abort_all("NCCL: no progress on a stream for " + in_seconds(timeout_) + " at or before " +
                         pending_calls() + " (a rank is missing, or calls do not match over ranks), aborted");
      continue;
    }
    watch.pending = watch.has_newer;
    watch.has_newer = false;
    if (watch.pending) {
      std::swap(watch.watched, watch.latest);
      watch.watched_call = watch.latest_call;
    }
    watch.since = Clock::now();
  }
}

/// With the mutex held. One stream that hangs soon has others waiting for it: all are named, the longest at it first.
std::string NcclWatchdog::pending_calls() const {
  std::vector<Watch const*> pending;
  for (auto const& [stream, watch] : watches_)
    if (watch.pending) pending.push_back(&watch);
  std::ranges::sort(pending, {}, &Watch::since);
  std::string names;
  for (Watch const* watch : pending)
    if (names.find(watch->watched_call) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(watch->watched_call);
  return names;
}

/// With the mutex held. The fault first: aborting lets waiters go, and they must find it.
void NcclWatchdog::abort_all(std::string const& reason) {
  context_->fault.raise(reason);
  aborted_ = true;
  for (ncclComm_t comm : comms_) static_cast<void>(ncclCommAbort(comm));
}

}  // namespace shardbench
