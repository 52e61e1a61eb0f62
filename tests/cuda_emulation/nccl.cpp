// NCCL over MPI. As strict as the real one where it matters: work runs in stream order, a send waits for its receive
// (no buffering), sends and receives of a group progress together, and calls of a communicator must match over ranks.
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nccl_exchange.hpp"
#include "runtime.hpp"

using emulation::CommState;

struct ncclComm {
  std::shared_ptr<CommState> state = std::make_shared<CommState>();
};

namespace {

using emulation::bytes_of;
using emulation::exchange;
using emulation::Fault;
using emulation::gather;
using emulation::Message;
using emulation::Range;
using emulation::reduce;

/// Calls between ncclGroupStart and ncclGroupEnd of one thread.
struct Queued {
  ncclComm_t comm;
  cudaStream_t stream;
  Message message;
};

struct Group {
  int depth = 0;
  std::vector<Queued> messages;
};

thread_local Group group;

/// Queues an op, or what an injected fault makes of it.
ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, std::vector<Range> const& touched,
                    std::function<void(CommState const&)> work) {
  auto const state = comm->state;
  if (state->aborted) return ncclInvalidUsage;
  for (Range const& range : touched)
    if (!emulation::in_device_memory(range.data, range.bytes)) return ncclInvalidArgument;
  if (emulation::fails_now(Fault::nccl_error)) {
    state->error = ncclRemoteError;
    return ncclRemoteError;
  }
  if (emulation::fails_now(Fault::nccl_hang)) {
    work = [](CommState const& hung) {
      while (!hung.aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
  }
  cudaError_t const code = emulation::enqueue(
      stream, [state, work] { work(*state); }, touched, "collective");
  if (code != cudaSuccess) return ncclUnhandledCudaError;
  if (state->blocking) return ncclSuccess;
  state->polls_in_progress = 1;
  return ncclInProgress;
}

MPI_Comm quiet(MPI_Comm comm) {
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
  return comm;
}

/// A communicator over an MPI one, which it takes.
ncclComm_t make_comm(MPI_Comm over, bool blocking) {
  auto* const comm = new ncclComm;
  comm->state->control = quiet(over);
  MPI_Comm_dup(over, &comm->state->data);
  MPI_Comm_rank(over, &comm->state->rank);
  MPI_Comm_size(over, &comm->state->size);
  comm->state->blocking = blocking;
  comm->state->polls_in_progress = blocking ? 0 : 2;
  return comm;
}

/// World ranks of a new communicator, gathered by the process that made the id and sent to all.
std::vector<int> gather_members(int root, int tag, int ranks, int rank) {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  int const mine[2] = {rank, me};
  if (me != root) {
    MPI_Send(mine, 2, MPI_INT, root, tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), ranks, MPI_INT, root, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return members;
  }
  members[static_cast<std::size_t>(rank)] = me;
  for (int i = 1; i < ranks; ++i) {
    int other[2];
    MPI_Recv(other, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    members[static_cast<std::size_t>(other[0])] = other[1];
  }
  for (int const member : members)
    if (member != me) MPI_Send(members.data(), ranks, MPI_INT, member, tag, MPI_COMM_WORLD);
  return members;
}

}  // namespace

char const* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown";
}

char const* ncclGetLastError(ncclComm_t) { return "reported by the emulated GPU"; }

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made{0};
  *id = {};
  int content[2] = {0, 20000 + made++ % 10000};
  MPI_Comm_rank(MPI_COMM_WORLD, &content[0]);
  std::memcpy(id->internal, content, sizeof content);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  bool const blocking = !config || config->blocking != 0;
  if (emulation::fails_now(Fault::nccl_hang)) {
    *comm = new ncclComm;
    (*comm)->state->blocking = blocking;
    (*comm)->state->polls_in_progress = -1;  // for ever
    return ncclInProgress;
  }
  int content[2];
  std::memcpy(content, id.internal, sizeof content);
  std::vector<int> const members = gather_members(content[0], content[1], ranks, rank);
  MPI_Group world = MPI_GROUP_NULL, wanted = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, ranks, members.data(), &wanted);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_create_group(MPI_COMM_WORLD, wanted, content[1], &made);
  MPI_Group_free(&world);
  MPI_Group_free(&wanted);
  *comm = make_comm(made, blocking);
  return blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  bool const blocking = config ? config->blocking != 0 : comm->state->blocking;
  MPI_Comm sub = MPI_COMM_NULL;
  MPI_Comm_split(comm->state->control, color == NCCL_SPLIT_NOCOLOR ? MPI_UNDEFINED : color, key, &sub);
  *made = sub == MPI_COMM_NULL ? nullptr : make_comm(sub, blocking);
  if (comm->state->blocking) return ncclSuccess;
  comm->state->polls_in_progress = 1;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* code) {
  CommState& state = *comm->state;
  int left = state.polls_in_progress;
  while (left > 0 && !state.polls_in_progress.compare_exchange_weak(left, left - 1)) {
  }
  if (left != 0) {
    *code = ncclInProgress;
  } else {
    *code = state.error;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->state->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->state->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) {
    for (MPI_Comm* over : {&comm->state->data, &comm->state->control})
      if (*over != MPI_COMM_NULL) MPI_Comm_free(over);
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state->aborted = true;
  return ncclSuccess;  // the state lives on in queued ops; MPI's communicators are left as they are
}

ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  std::size_t const bytes = count * bytes_of(type);
  return submit(comm, stream, {{from, bytes, false}, {to, bytes, true}}, [=](CommState const& state) {
    std::vector<char> const rows = gather(state, from, bytes);
    if (!rows.empty()) reduce(rows, to, count, state.size, type, op);
  });
}

ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  auto const ranks = static_cast<std::size_t>(comm->state->size);
  std::size_t const whole = count * ranks * bytes_of(type);
  return submit(comm, stream, {{from, whole, false}, {to, whole / ranks, true}}, [=](CommState const& state) {
    std::vector<char> const rows = gather(state, from, whole);
    if (rows.empty()) return;
    std::vector<char> sum(whole);
    reduce(rows, sum.data(), count * ranks, state.size, type, op);
    std::memcpy(to, sum.data() + static_cast<std::size_t>(state.rank) * (whole / ranks), whole / ranks);
  });
}

ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  std::size_t const bytes = count * bytes_of(type);
  return submit(comm, stream, {{from, bytes, false}, {to, bytes * static_cast<std::size_t>(comm->state->size), true}},
                [=](CommState const& state) {
                  std::vector<char> const rows = gather(state, from, bytes);
                  if (!rows.empty()) std::memcpy(to, rows.data(), rows.size());
                });
}

ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  std::size_t const bytes = count * bytes_of(type);
  return submit(comm, stream, {{from, bytes, false}, {to, bytes, true}},
                [=](CommState const& state) { emulation::broadcast(state, from, to, bytes, root); });
}

ncclResult_t ncclSend(void const* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  ncclGroupStart();
  group.messages.push_back({comm, stream, {const_cast<void*>(data), count * bytes_of(type), peer, true}});
  return ncclGroupEnd();
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  ncclGroupStart();
  group.messages.push_back({comm, stream, {data, count * bytes_of(type), peer, false}});
  return ncclGroupEnd();
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  std::vector<Queued> const queued = std::exchange(group.messages, {});
  ncclResult_t result = ncclSuccess;
  for (std::size_t first = 0; first < queued.size() && (result == ncclSuccess || result == ncclInProgress);) {
    std::size_t last = first;
    std::vector<Message> messages;
    std::vector<Range> touched;
    for (;
         last < queued.size() && queued[last].comm == queued[first].comm && queued[last].stream == queued[first].stream;
         ++last) {
      messages.push_back(queued[last].message);
      touched.push_back({messages.back().data, messages.back().bytes, !messages.back().is_send});
    }
    result = submit(queued[first].comm, queued[first].stream, touched,
                    [messages](CommState const& state) { exchange(state, messages); });
    first = last;
  }
  return result;
}
