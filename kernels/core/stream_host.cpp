#include "kernels/core/stream_host.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::shared_ptr<HostEventState> const& state_of(Event& event) {
  auto* const host_event = dynamic_cast<HostEvent*>(&event);
  VALIDATE(host_event != nullptr, "a host stream was given an event of another device");
  return host_event->state();
}

/// Forwards to the stream it owns and keeps the registry in step with its lifetime.
class RegisteredStream final : public Stream {
 public:
  RegisteredStream(std::shared_ptr<StreamRegistry> registry, std::unique_ptr<Stream> stream)
      : registry_(std::move(registry)), stream_(std::move(stream)) {
    registry_->add(stream_.get());
  }
  ~RegisteredStream() override { registry_->remove(stream_.get()); }
  RegisteredStream(RegisteredStream const&) = delete;
  RegisteredStream& operator=(RegisteredStream const&) = delete;
  void submit(std::function<void()> work) override { stream_->submit(std::move(work)); }
  void record(Event& event) override { stream_->record(event); }
  void wait(Event& event) override { stream_->wait(event); }
  void synchronize() override { stream_->synchronize(); }
  void* native() override { return stream_->native(); }

 private:
  std::shared_ptr<StreamRegistry> registry_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

std::uint64_t HostEventState::issue() {
  std::lock_guard const lock(mutex_);
  return ++issued_;
}

std::uint64_t HostEventState::issued() const {
  std::lock_guard const lock(mutex_);
  return issued_;
}

void HostEventState::reach(std::uint64_t ticket) {
  double const time = now_ms();
  {
    std::lock_guard const lock(mutex_);
    if (ticket <= reached_) return;
    reached_ = ticket;
    time_ms_ = time;
  }
  reached_changed_.notify_all();
}

void HostEventState::wait_for(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  reached_changed_.wait(lock, [&] { return reached_ >= ticket; });
}

double HostEventState::time_ms() const {
  std::lock_guard const lock(mutex_);
  VALIDATE(reached_ > 0, "the time of an event was asked for before any stream reached it");
  return time_ms_;
}

double HostEvent::time_ms() const {
  VALIDATE(timed_, "the time of an event made without timing was asked for");
  return state_->time_ms();
}

void HostFailure::run(std::function<void()> const& work) {
  {
    std::lock_guard const lock(mutex_);
    if (exception_) return;
  }
  try {
    work();
  } catch (...) {
    std::lock_guard const lock(mutex_);
    exception_ = std::current_exception();
  }
}

void HostFailure::rethrow() {
  std::exception_ptr exception;
  {
    std::lock_guard const lock(mutex_);
    std::swap(exception, exception_);
  }
  if (exception) std::rethrow_exception(exception);
}

void InlineStream::record(Event& event) {
  auto const& state = state_of(event);
  state->reach(state->issue());
}

void InlineStream::wait(Event& event) {
  auto const& state = state_of(event);
  state->wait_for(state->issued());
}

ThreadStream::ThreadStream() : thread_([this] { drain(); }) {}

ThreadStream::~ThreadStream() {
  {
    std::lock_guard const lock(mutex_);
    closing_ = true;
  }
  work_arrived_.notify_one();
  thread_.join();
}

void ThreadStream::enqueue(std::function<void()> step) {
  {
    std::lock_guard const lock(mutex_);
    queue_.push_back(std::move(step));
  }
  work_arrived_.notify_one();
}

void ThreadStream::submit(std::function<void()> work) {
  enqueue([this, work = std::move(work)] { failure_.run(work); });
}

// Records and waits run even after a failure: another stream may be blocked on them.
void ThreadStream::record(Event& event) {
  auto const& state = state_of(event);
  enqueue([state, ticket = state->issue()] { state->reach(ticket); });
}

void ThreadStream::wait(Event& event) {
  auto const& state = state_of(event);
  enqueue([state, ticket = state->issued()] { state->wait_for(ticket); });
}

void ThreadStream::synchronize() {
  {
    std::unique_lock lock(mutex_);
    became_idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  failure_.rethrow();
}

void ThreadStream::drain() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_arrived_.wait(lock, [&] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    std::function<void()> step = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    step();
    step = nullptr;
    lock.lock();
    busy_ = false;
    if (queue_.empty()) became_idle_.notify_all();
  }
}

std::unique_ptr<Stream> StreamRegistry::adopt(std::shared_ptr<StreamRegistry> registry,
                                              std::unique_ptr<Stream> stream) {
  return std::make_unique<RegisteredStream>(std::move(registry), std::move(stream));
}

void StreamRegistry::add(Stream* stream) {
  std::lock_guard const lock(mutex_);
  streams_.push_back(stream);
}

void StreamRegistry::remove(Stream* stream) {
  std::lock_guard const lock(mutex_);
  std::erase(streams_, stream);
}

void StreamRegistry::synchronize() {
  std::lock_guard const lock(mutex_);
  std::exception_ptr first;
  for (Stream* const stream : streams_) {
    try {
      stream->synchronize();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace shardbench
