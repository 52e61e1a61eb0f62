#pragma once
// Includes neither mpi.h nor nccl.h.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/core/device.hpp"

namespace shardbench {

struct Rendezvous;

enum class ReduceOp : std::uint8_t { sum, max };

/// `count` elements at `data` on the communicator's device.
struct BufferView {
  void* data = nullptr;
  std::size_t count = 0;
  Dtype dtype = Dtype::f32;
  std::size_t bytes() const { return count * bytes_of(dtype); }
};

/// Bytes handed to the communicator, counted where the call is made: nothing else in the program feeds these.
struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t payload_bytes = 0;  ///< see formulas: the whole reduced / gathered / exchanged buffer, or the message
};

/// Collectives over one group of ranks. Host back ends finish before they return; device back ends enqueue on `stream`.
/// Every rank of the group makes the same collective calls in the same order, from one thread at a time per
/// communicator; send and receive may run on several threads at once when their tags differ. Reductions take f32, bf16,
/// f64 and i32; the other calls move any dtype. Payload (Traffic): the buffer of an all-reduce or broadcast, the full
/// input of a reduce-scatter or all-to-all, the gathered output of an all-gather, a message once, at its sender.
class Communicator {
 public:
  virtual ~Communicator() = default;
  std::string_view backend() const { return backend_; }  ///< "self", "mpi", "tcp", "nccl": a report column
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Whether messages are told apart by their tags; without, two ranks' messages arrive in the order they were sent in.
  virtual bool has_tags() const { return true; }
  /// Ranks with equal `color` form a group ordered by `key`; nullptr for a negative color. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual void all_reduce(BufferView data, ReduceOp op, Stream& stream) = 0;
  /// to = this rank's 1/size of the sum over ranks of `from` (count = size * to.count, equal shards).
  virtual void reduce_scatter(BufferView from, BufferView to, Stream& stream) = 0;
  /// to = the ranks' `from`s in rank order (to.count = size * from.count, equal shards).
  virtual void all_gather(BufferView from, BufferView to, Stream& stream) = 0;
  /// Sends from[r-th block of send_counts] to rank r; counts in elements, blocks back to back.
  virtual void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                          std::vector<std::size_t> const& receive_counts, Stream& stream) = 0;
  virtual void broadcast(BufferView data, int root, Stream& stream) = 0;
  virtual void send(BufferView data, int peer, int tag, Stream& stream) = 0;
  virtual void receive(BufferView data, int peer, int tag, Stream& stream) = 0;
  /// Calls of this communicator are in work just enqueued on `stream` by other means (a graph): a back end that looks
  /// for hangs notes it by this name, a literal.
  virtual void watch(Stream&, char const*) {}
  /// Blocks the calling thread until all ranks are here.
  virtual void barrier() = 0;
  /// What this communicator moved since its start.
  Traffic traffic() const { return {calls_.load(), payload_bytes_.load()}; }

 protected:
  /// `backend` is a literal.
  explicit Communicator(std::string_view backend) : backend_(backend) {}
  void count(std::size_t payload_bytes) {
    ++calls_;
    payload_bytes_ += payload_bytes;
  }

  int rank_ = 0, size_ = 1;

 private:
  std::string_view backend_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> payload_bytes_{0};
};

/// A group of one: collectives copy, send and receive are errors. Tests and the unsharded baseline.
std::unique_ptr<Communicator> make_self_communicator();

/// Most elements handed to one MPI call, whose counts are int; larger buffers go in pieces.
inline constexpr std::size_t largest_mpi_count = std::size_t{1} << 30;

/// All MPI ranks of the job. MPI must be started (MpiProcess). Collective. `largest_count` is inherited by splits;
/// it is smaller than the default only in tests.
/// bf16 reductions add in float and round to bf16 after each addition (nearest even), as a ring of bf16 messages does:
/// the relative error of a sum of positive terms is below (size - 1) * 2^-9.
std::unique_ptr<Communicator> make_mpi_communicator(std::size_t largest_count = largest_mpi_count);

/// All ranks of a job without MPI, met over TCP: every pair has a connection. Collective. Sums in rank order, bf16 as
/// the MPI communicator does; made to bring GPUs together and for small host runs, not for speed. A rank that leaves is
/// an Error on those that wait for it; the last communicator of the job ends when all ranks have ended theirs. Throws
/// Error naming who is missing after `timeout_seconds`, and InputError where ranks disagree about the job or meet beyond
/// this machine without a secret. A rank of which nothing is heard for `patience_seconds` while it is waited for is an
/// Error on those that wait.
std::unique_ptr<Communicator> make_tcp_communicator(Rendezvous const& rendezvous, double timeout_seconds,
                                                    double patience_seconds = 1800);

/// Starts MPI with THREAD_MULTIPLE and ends it. Exactly one per process, in main.
class MpiProcess {
 public:
  MpiProcess(int* argc, char*** argv);
  ~MpiProcess();
  MpiProcess(MpiProcess const&) = delete;
  MpiProcess& operator=(MpiProcess const&) = delete;
  /// "Open MPI v4.1.4 ..." for the versions column.
  static std::string_view library_version();
  /// Whether MPI takes device memory; nothing where it does not say.
  static std::optional<bool> cuda_aware();
  /// Ends every rank of the job at once with this exit code; without MPI this one only, which the others notice.
  [[noreturn]] static void abort(int exit_code);
};

}  // namespace shardbench
