#include "nccl_exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "kernels/core/dtype.hpp"

namespace emulation {

using shardbench::Bf16;

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
    case ncclFloat8e4m3:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclFloat64:
      return 8;
    case ncclInt32:
    case ncclFloat32:
      break;
  }
  return 4;
}

namespace {

/// Buffers of MPI calls in flight. MPI cannot take back a collective or a synchronous send, so those of an aborted
/// communicator are left to it for ever.
using Staged = std::vector<std::vector<char>>;

/// Waits for MPI; false, and the buffers are given away, when the communicator is aborted first.
bool wait_for(std::vector<MPI_Request>& requests, CommState const& comm, std::unique_ptr<Staged>& staged) {
  for (;;) {
    int done = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (done) return true;
    if (comm.aborted) {
      static auto* const left = new std::vector<Staged*>;  // reachable: no leak to whoever looks for one
      static auto* const mutex = new std::mutex;
      std::lock_guard const lock(*mutex);
      left->push_back(staged.release());
      return false;
    }
    std::this_thread::yield();
  }
}

template <class T, class Widen, class Narrow>
void reduce_rows(T const* rows, T* to, std::size_t count, int ranks, ncclRedOp_t op, Widen widen, Narrow narrow) {
  for (std::size_t i = 0; i < count; ++i) {
    auto value = widen(rows[i]);
    for (int r = 1; r < ranks; ++r) {
      auto const next = widen(rows[static_cast<std::size_t>(r) * count + i]);
      value = op == ncclSum ? value + next : std::max(value, next);
    }
    to[i] = narrow(value);
  }
}

}  // namespace

void reduce(std::vector<char> const& rows, void* to, std::size_t count, int ranks, ncclDataType_t type,
            ncclRedOp_t op) {
  auto const same = [](auto x) { return x; };
  if (type == ncclBfloat16) {
    reduce_rows(
        reinterpret_cast<Bf16 const*>(rows.data()), static_cast<Bf16*>(to), count, ranks, op,
        [](Bf16 x) { return shardbench::to_float(x); }, [](float x) { return shardbench::to_bf16(x); });
  } else if (type == ncclFloat32) {
    reduce_rows(reinterpret_cast<float const*>(rows.data()), static_cast<float*>(to), count, ranks, op, same, same);
  } else if (type == ncclFloat64) {
    reduce_rows(reinterpret_cast<double const*>(rows.data()), static_cast<double*>(to), count, ranks, op, same, same);
  } else {
    reduce_rows(reinterpret_cast<std::int32_t const*>(rows.data()), static_cast<std::int32_t*>(to), count, ranks, op,
                same, same);
  }
}

std::vector<char> gather(CommState const& comm, void const* from, std::size_t bytes) {
  std::vector<MPI_Request> request(1, MPI_REQUEST_NULL);
  int const count = static_cast<int>(bytes);
  auto staged = std::make_unique<Staged>(2);
  std::vector<char>&mine = (*staged)[0], &all = (*staged)[1];
  mine.assign(static_cast<char const*>(from), static_cast<char const*>(from) + bytes);
  all.resize(bytes * static_cast<std::size_t>(comm.size));
  MPI_Iallgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, comm.data, request.data());
  if (!wait_for(request, comm, staged)) return {};
  return std::move(all);
}

void broadcast(CommState const& comm, void const* from, void* to, std::size_t bytes, int root) {
  std::vector<MPI_Request> request(1, MPI_REQUEST_NULL);
  auto staged = std::make_unique<Staged>(1);
  std::vector<char>& buffer = staged->front();
  buffer.resize(bytes);
  if (comm.rank == root) std::memcpy(buffer.data(), from, bytes);
  MPI_Ibcast(buffer.data(), static_cast<int>(bytes), MPI_BYTE, root, comm.data, request.data());
  if (wait_for(request, comm, staged)) std::memcpy(to, buffer.data(), bytes);
}

void exchange(CommState const& comm, std::vector<Message> const& messages) {
  std::vector<MPI_Request> requests(messages.size(), MPI_REQUEST_NULL);
  auto staged = std::make_unique<Staged>(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Message const& m = messages[i];
    int const count = static_cast<int>(m.bytes);
    std::vector<char>& buffer = (*staged)[i];
    buffer.resize(m.bytes);
    if (m.is_send) {
      std::memcpy(buffer.data(), m.data, m.bytes);
      MPI_Issend(buffer.data(), count, MPI_BYTE, m.peer, 0, comm.data, &requests[i]);
    } else {
      MPI_Irecv(buffer.data(), count, MPI_BYTE, m.peer, 0, comm.data, &requests[i]);
    }
  }
  if (!wait_for(requests, comm, staged)) return;
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_send) std::memcpy(messages[i].data, (*staged)[i].data(), messages[i].bytes);
}

}  // namespace emulation
