#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/core/device.hpp"

namespace shardbench {

/// What an event and the streams that use it share: it outlives the event while work that names it is queued.
class HostEventState {
 public:
  /// Announces one more record; returns the ticket that reach() and wait_for() take.
  std::uint64_t issue();
  /// The last ticket issued (0 when there was none).
  std::uint64_t issued() const;
  /// A stream has come to the record with this ticket.
  void reach(std::uint64_t ticket);
  /// Blocks until that ticket, or a later one, is reached.
  void wait_for(std::uint64_t ticket);
  /// Milliseconds of steady_clock at the last reach().
  double time_ms() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable reached_changed_;
  std::uint64_t issued_ = 0, reached_ = 0;
  double time_ms_ = 0;
};

/// Event of host streams; reads steady_clock when `timed`.
class HostEvent final : public Event {
 public:
  explicit HostEvent(bool timed) : timed_(timed), state_(std::make_shared<HostEventState>()) {}
  void synchronize() override { state_->wait_for(state_->issued()); }
  /// Throws when the event was not made timed or was never recorded.
  double time_ms() const override;
  std::shared_ptr<HostEventState> const& state() const { return state_; }

 private:
  bool timed_;
  std::shared_ptr<HostEventState> state_;
};

/// Keeps the first exception that a stream's work threw; later work of that stream is dropped until it is taken.
class HostFailure {
 public:
  /// Runs `work` unless the stream has failed already.
  void run(std::function<void()> const& work);
  /// Rethrows and forgets the kept exception, if any.
  void rethrow();

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
};

/// Runs work on the calling thread before submit() returns.
class InlineStream final : public Stream {
 public:
  void submit(std::function<void()> work) override { failure_.run(work); }
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override { failure_.rethrow(); }
  void* native() override { return nullptr; }

 private:
  HostFailure failure_;
};

/// Runs work in order on a thread of its own; the thread sleeps while there is none.
class ThreadStream final : public Stream {
 public:
  ThreadStream();
  /// Finishes the queued work, then ends the thread.
  ~ThreadStream() override;
  ThreadStream(ThreadStream const&) = delete;
  ThreadStream& operator=(ThreadStream const&) = delete;
  void submit(std::function<void()> work) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void* native() override { return nullptr; }

 private:
  void enqueue(std::function<void()> step);
  void drain();

  HostFailure failure_;
  std::mutex mutex_;
  std::condition_variable work_arrived_, became_idle_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false, closing_ = false;
  std::thread thread_;
};

/// The streams alive on a device, so that it can wait for all of them.
class StreamRegistry {
 public:
  /// Wraps a stream so that it leaves the registry when its owner drops it.
  static std::unique_ptr<Stream> adopt(std::shared_ptr<StreamRegistry> registry, std::unique_ptr<Stream> stream);
  void add(Stream* stream);
  void remove(Stream* stream);
  /// Waits for every stream, then rethrows the first failure.
  void synchronize();

 private:
  std::mutex mutex_;
  std::vector<Stream*> streams_;
};

}  // namespace shardbench
