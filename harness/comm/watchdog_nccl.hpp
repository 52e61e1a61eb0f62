#pragma once
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "kernels/core/cuda/stream.hpp"

namespace shardbench {

/// Throws Error naming the call and NCCL's own words when `code` is neither success nor "in progress".
void nccl_check(ncclResult_t code, ncclComm_t comm, char const* call, char const* file, int line);

/// Looks after all NCCL communicators of one device: work that makes no progress for `timeout_seconds`, or an
/// asynchronous error, aborts them all and raises the device's fault, which whoever waits for the device then throws.
class NcclWatchdog {
 public:
  NcclWatchdog(std::shared_ptr<CudaContext> context, double timeout_seconds);
  ~NcclWatchdog();
  NcclWatchdog(NcclWatchdog const&) = delete;
  NcclWatchdog& operator=(NcclWatchdog const&) = delete;
  void add(ncclComm_t comm);
  /// Ends the communicator once nothing is in flight, or leaves it when it was aborted.
  void destroy(ncclComm_t comm);
  /// Notes that this call (a literal) was put on this stream.
  void issued(cudaStream_t stream, char const* call);
  /// Waits until a non-blocking call is through; aborts and throws after the timeout. `code` is what the call returned.
  void settle(ncclResult_t code, ncclComm_t comm, char const* call, char const* file, int line);
  /// Throws when the communicators were aborted.
  void check() const { context_->fault.check(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// Two events, since one that is recorded again and again would never be seen done: the first stays until reached.
  struct Watch {
    cudaEvent_t watched = nullptr, latest = nullptr;
    char const* watched_call = "";  ///< the last call before `watched`: it, or one before it, is what does not end
    char const* latest_call = "";
    bool pending = false, has_newer = false;
    Clock::time_point since;
  };
  void serve();
  void look();
  std::string pending_calls() const;
  void abort_all(std::string const& reason);
  static cudaEvent_t make_event();

  std::shared_ptr<CudaContext> context_;
  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false, aborted_ = false;
  std::set<ncclComm_t> comms_;
  std::map<cudaStream_t, Watch> watches_;
  std::thread thread_;
};

}  // namespace shardbench

/// Calls that are complete when they return.
#define NCCL_CHECK(call) ::shardbench::nccl_check((call), nullptr, #call, __FILE__, __LINE__)
