#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "harness/comm/buffers.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/comm/mpi_check.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

// bf16 on the wire is an opaque 2-byte type: MPI has no bf16, and widening to f32 would double the bytes moved.
template <ReduceOp op>
void reduce_bf16(void* in, void* inout, int* length, MPI_Datatype*) {
  reduce_elements<Bf16>(in, inout, *length, op);
}

// Made once MPI runs and kept until the process ends: every communicator shares them.
struct Bf16Reduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_OP_NULL, max = MPI_OP_NULL;
  Bf16Reduction() {
    MPI_CHECK(MPI_Type_contiguous(sizeof(Bf16), MPI_BYTE, &type));
    MPI_CHECK(MPI_Type_commit(&type));
    MPI_CHECK(MPI_Op_create(&reduce_bf16<ReduceOp::sum>, 1, &sum));
    MPI_CHECK(MPI_Op_create(&reduce_bf16<ReduceOp::max>, 1, &max));
  }
};

Bf16Reduction const& bf16_reduction() {
  static Bf16Reduction const reduction;
  return reduction;
}

MPI_Datatype to_mpi(Dtype dtype) {
  static std::array const types{MPI_FLOAT, bf16_reduction().type, MPI_DOUBLE, MPI_INT32_T, MPI_BYTE, MPI_BYTE,
                                MPI_BYTE};
  static_assert(std::tuple_size_v<decltype(types)> == enum_count<Dtype>);
  return types.at(static_cast<int>(dtype));
}

MPI_Op to_mpi(ReduceOp op, Dtype dtype) {
  validate_reducible(dtype);
  if (dtype == Dtype::bf16) return op == ReduceOp::sum ? bf16_reduction().sum : bf16_reduction().max;
  return op == ReduceOp::sum ? MPI_SUM : MPI_MAX;
}

// Calls piece(offset, count) over [0, count) in pieces that fit MPI's int; once, with 0, for an empty buffer.
template <class Piece>
void in_pieces(std::size_t count, std::size_t largest, Piece piece) {
  std::size_t offset = 0;
  do {
    std::size_t const now = std::min(largest, count - offset);
    piece(offset, static_cast<int>(now));
    offset += now;
  } while (offset < count);
}

// Waits for `ready()` without holding the core, on which this rank or another may be computing: first yields, since
// most partners are near, then sleeps a fraction of the time waited so far, so that a wait hardly grows and costs
// little.
template <class Ready>
void wait_politely(Ready ready) {
  using clock = std::chrono::steady_clock;
  thread_local bool const precise = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0) == 0;  // by default sleeps last 50 us longer
  static_cast<void>(precise);
  constexpr std::chrono::nanoseconds patience(20'000), shortest_sleep(2'000), longest_sleep(100'000);
  auto const start = clock::now();
  while (!ready()) {
    std::chrono::nanoseconds const waited = clock::now() - start;
    if (waited < patience)
      sched_yield();
    else
      std::this_thread::sleep_for(std::clamp(waited / 16, shortest_sleep, longest_sleep));
  }
}

void wait_politely(MPI_Request& request) {
  wait_politely([&] {
    int done = 0;
    MPI_CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  });
}

// Completes a transfer whose partner is there: bytes move only while both sides call MPI, so this does not sleep.
void finish(MPI_Request& request, MPI_Status* status) {
  for (int done = 0;;) {
    MPI_CHECK(MPI_Test(&request, &done, status));
    if (done) return;
    sched_yield();
  }
}

// From this size on a message is announced first: the wait for the partner then holds no core, and the transfer, which
// sleeping would slow down three to five times, does not sleep. Collectives stay blocking: a meeting before them was
// tried and cost more than it saved.
constexpr std::size_t announced_bytes = 65536;

// From this size on, ranks of one host reduce a block for each rank in turn: Open MPI 4's MPI_Reduce_scatter_block
// copies all blocks into fresh memory first, and took three times as long (25 MB, 2 ranks: 19 ms against 5), beside
// compute thirteen times. Between hosts it stays, as it sends and receives at once.
constexpr std::size_t reduced_by_root_bytes = 65536;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(MPI_Comm comm, std::size_t largest) : Communicator("mpi"), comm_(comm), largest_(largest) {
    MPI_CHECK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));  // by default an error ends the job unexplained
    MPI_CHECK(MPI_Comm_rank(comm_, &rank_));
    MPI_CHECK(MPI_Comm_size(comm_, &size_));
    MPI_Comm host = MPI_COMM_NULL;
    MPI_CHECK(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    int local = 0;
    MPI_CHECK(MPI_Comm_size(host, &local));
    MPI_CHECK(MPI_Comm_free(&host));
    one_host_ = local == size_;
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    if (MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized) MPI_Comm_free(&comm_);
  }
  MpiCommunicator(MpiCommunicator const&) = delete;
  MpiCommunicator& operator=(MpiCommunicator const&) = delete;

  std::unique_ptr<Communicator> split(int color, int key) final {
    MPI_Comm sub = MPI_COMM_NULL;
    MPI_CHECK(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &sub));
    return sub == MPI_COMM_NULL ? nullptr : std::make_unique<MpiCommunicator>(sub, largest_);
  }

  void all_reduce(BufferView data, ReduceOp op, Stream&) final {
    count(data.bytes());
    in_pieces(data.count, largest_, [&](std::size_t offset, int n) {
      MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, at(data, offset), n, to_mpi(data.dtype), to_mpi(op, data.dtype), comm_));
    });
  }

  void reduce_scatter(BufferView from, BufferView to, Stream&) final {
    validate_shards(from, to, size_, "reduce_scatter");
    count(from.bytes());
    bool const in_place = is_in_place(from, to, rank_, "reduce_scatter output overlaps its input");
    bool const by_root = one_host_ && from.bytes() >= reduced_by_root_bytes;
    if (in_place || by_root || from.count > largest_) return reduce_to_each(from, to);
    MPI_CHECK(MPI_Reduce_scatter_block(from.data, to.data, static_cast<int>(to.count), to_mpi(from.dtype),
                                       to_mpi(ReduceOp::sum, from.dtype), comm_));
  }

  void all_gather(BufferView from, BufferView to, Stream&) final {
    validate_shards(to, from, size_, "all_gather");
    count(to.bytes());
    bool const in_place = is_in_place(to, from, rank_, "all_gather input overlaps its output");
    if (to.count > largest_) return gather_in_pieces(from, to, in_place);
    MPI_Datatype const type = to_mpi(from.dtype);
    MPI_CHECK(MPI_Allgather(in_place ? MPI_IN_PLACE : from.data, static_cast<int>(from.count), type, to.data,
                            static_cast<int>(from.count), type, comm_));
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream&) final {
    validate_exchange(from, send_counts, to, receive_counts, rank_, size_);
    count(from.bytes());
    exchange(from, send_counts, to, receive_counts);
  }

  void broadcast(BufferView data, int root, Stream&) final {
    count(data.bytes());
    in_pieces(data.count, largest_, [&](std::size_t offset, int n) {
      MPI_CHECK(MPI_Bcast(at(data, offset), n, to_mpi(data.dtype), root, comm_));
    });
  }

  // A large message is announced by an empty one, which completes when the receiver has come to it.
  void send(BufferView data, int peer, int tag, Stream&) final {
    count(data.bytes());
    MPI_Datatype const type = to_mpi(data.dtype);
    in_pieces(data.count, largest_, [&](std::size_t offset, int n) {
      MPI_Request request = MPI_REQUEST_NULL;
      bool const announced = is_announced(data.dtype, n);
      if (announced) {
        MPI_CHECK(MPI_Issend(nullptr, 0, type, peer, tag, comm_, &request));
        wait_politely(request);
      }
      MPI_CHECK(MPI_Isend(at(data, offset), n, type, peer, tag, comm_, &request));
      announced ? finish(request, MPI_STATUS_IGNORE) : wait_politely(request);
    });
  }

  void receive(BufferView data, int peer, int tag, Stream&) final {
    count(0);
    in_pieces(data.count, largest_, [&](std::size_t offset, int n) {
      if (is_announced(data.dtype, n)) receive_piece(nullptr, 0, data.dtype, peer, tag);
      receive_piece(at(data, offset), n, data.dtype, peer, tag);
    });
  }

  void barrier() final { MPI_CHECK(MPI_Barrier(comm_)); }

 private:
  static bool is_announced(Dtype dtype, int n) { return n * bytes_of(dtype) >= announced_bytes; }

  void receive_piece(void* data, int n, Dtype dtype, int peer, int tag) {
    MPI_Message message = MPI_MESSAGE_NULL;
    wait_politely([&] {
      int found = 0;
      MPI_CHECK(MPI_Improbe(peer, tag, comm_, &found, &message, MPI_STATUS_IGNORE));
      return found != 0;
    });
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_CHECK(MPI_Imrecv(data, n, to_mpi(dtype), &message, &request));
    finish(request, &status);
    int got = 0;
    MPI_CHECK(MPI_Get_count(&status, to_mpi(dtype), &got));
    VALIDATE(got == n, fmt::format("message of {} elements from rank {} with tag {}, {} expected", got, peer, tag, n));
  }

  // Block by block to its owner: no count or offset grows beyond a piece, and only the own block is written.
  void reduce_to_each(BufferView from, BufferView to) {
    MPI_Datatype const type = to_mpi(from.dtype);
    MPI_Op const op = to_mpi(ReduceOp::sum, from.dtype);
    for (int root = 0; root < size_; ++root) {
      std::size_t const first = root * to.count;
      in_pieces(to.count, largest_, [&](std::size_t offset, int n) {
        void const* input = at(from, first + offset);
        bool const own = root == rank_ && input == at(to, offset);
        MPI_CHECK(
            MPI_Reduce(own ? MPI_IN_PLACE : input, root == rank_ ? at(to, offset) : nullptr, n, type, op, root, comm_));
      });
    }
  }

  // A piece of every rank's shard at a time: the receive type's extent is a whole shard, so pieces land in place.
  void gather_in_pieces(BufferView from, BufferView to, bool in_place) {
    MPI_Datatype const type = to_mpi(from.dtype);
    in_pieces(from.count, std::max<std::size_t>(largest_ / size_, 1), [&](std::size_t offset, int n) {
      MPI_Datatype piece = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
      MPI_CHECK(MPI_Type_contiguous(n, type, &piece));
      MPI_CHECK(MPI_Type_create_resized(piece, 0, static_cast<MPI_Aint>(from.bytes()), &strided));
      MPI_CHECK(MPI_Type_commit(&strided));
      int const code =
          MPI_Allgather(in_place ? MPI_IN_PLACE : at(from, offset), n, type, at(to, offset), 1, strided, comm_);
      MPI_CHECK(MPI_Type_free(&strided));
      MPI_CHECK(MPI_Type_free(&piece));
      mpi_check(code, "MPI_Allgather", __FILE__, __LINE__);
    });
  }

  // Not MPI_Alltoallv: its counts and offsets are int, and no rank knows alone whether every rank's fit. Two peers
  // agree on their block, hence on its pieces. Round k goes to the rank k above and comes from the rank k below.
  void exchange(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                std::vector<std::size_t> const& receive_counts) {
    std::vector<BufferView> const sent = blocks_of(from, send_counts), received = blocks_of(to, receive_counts);
    MPI_Datatype const type = to_mpi(from.dtype);
    std::vector<MPI_Request> requests;
    for (int k = 1; k < size_; ++k) {
      int const below = (rank_ + size_ - k) % size_;
      in_pieces(received[below].count, largest_, [&](std::size_t offset, int n) {
        MPI_CHECK(MPI_Irecv(at(received[below], offset), n, type, below, exchange_tag, comm_,
                            &requests.emplace_back(MPI_REQUEST_NULL)));
      });
    }
    for (int k = 1; k < size_; ++k) {
      int const above = (rank_ + k) % size_;
      in_pieces(sent[above].count, largest_, [&](std::size_t offset, int n) {
        MPI_CHECK(MPI_Isend(at(sent[above], offset), n, type, above, exchange_tag, comm_,
                            &requests.emplace_back(MPI_REQUEST_NULL)));
      });
    }
    copy(sent[rank_], received[rank_]);
    MPI_CHECK(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  }

  static constexpr int exchange_tag = 32767;  // the largest tag every MPI has; callers' tags stay below it
  MPI_Comm comm_;
  std::size_t largest_;
  bool one_host_ = false;  ///< all ranks share memory
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::size_t largest_count) {
  VALIDATE(largest_count >= 1 && std::in_range<int>(largest_count),
           fmt::format("largest count {} is no positive int", largest_count));
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  return std::make_unique<MpiCommunicator>(copy, largest_count);
}

}  // namespace shardbench
