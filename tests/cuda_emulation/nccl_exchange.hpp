#pragma once
// How the emulated NCCL moves data: MPI calls that an aborted communicator leaves behind.
#include <mpi.h>
#include <nccl.h>

#include <atomic>
#include <vector>

namespace emulation {

/// What a communicator and the ops queued for it share.
struct CommState {
  MPI_Comm data = MPI_COMM_NULL;     ///< collectives and messages, from the streams' threads
  MPI_Comm control = MPI_COMM_NULL;  ///< splits, from the calling thread
  int rank = 0, size = 1;
  bool blocking = true;
  std::atomic<bool> aborted{false};
  std::atomic<int> polls_in_progress{0};  ///< answers of "in progress" still to give
  std::atomic<ncclResult_t> error{ncclSuccess};
};

/// Bytes of an element.
std::size_t bytes_of(ncclDataType_t type);

/// Reduces the ranks' rows in rank order.
void reduce(std::vector<char> const& rows, void* to, std::size_t count, int ranks, ncclDataType_t type, ncclRedOp_t op);

/// The ranks' data, one after the other; nothing when the communicator was aborted.
std::vector<char> gather(CommState const& comm, void const* from, std::size_t bytes);

/// The root's data to all; nothing is written when the communicator was aborted.
void broadcast(CommState const& comm, void const* from, void* to, std::size_t bytes, int root);

/// A send or receive of a group.
struct Message {
  void* data;
  std::size_t bytes;
  int peer;
  bool is_send;
};

/// Moves the messages of a group together.
void exchange(CommState const& comm, std::vector<Message> const& messages);

}  // namespace emulation
