#include "harness/comm/communicator_nccl.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "harness/comm/watchdog_nccl.hpp"
#include "kernels/core/cuda/plugin.hpp"

namespace shardbench {
namespace {

ncclDataType_t to_nccl(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return ncclFloat32;
    case Dtype::bf16:
      return ncclBfloat16;
    case Dtype::f64:
      return ncclFloat64;
    case Dtype::i32:
      return ncclInt32;
    case Dtype::u8:
    case Dtype::fp8:
    case Dtype::fp8_e5m2:
      return ncclUint8;
    case Dtype::size_:
      break;
  }
  throw Error("unknown dtype");
}

ncclRedOp_t to_nccl(ReduceOp op, Dtype dtype) {
  VALIDATE(dtype != Dtype::u8 && !is_fp8(dtype),
           "cannot reduce " + std::string(to_string(dtype)) + " (fp32, bf16, fp64 and int32 are reduced)");
  return op == ReduceOp::sum ? ncclSum : ncclMax;
}

std::byte* at(BufferView view, std::size_t element) {
  return static_cast<std::byte*>(view.data) + element * bytes_of(view.dtype);
}

/// What the bootstrap's host calls take as a stream: they finish before they return and use none of it.
class NoStream final : public Stream {
 public:
  void submit(std::function<void()> work) override { work(); }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}
  void* native() override { return nullptr; }
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(ncclComm_t comm, std::shared_ptr<NcclWatchdog> watchdog, CudaDevice& device)
      : comm_(comm), watchdog_(std::move(watchdog)), device_(device) {
    NCCL_CHECK(ncclCommUserRank(comm_, &rank_));
    NCCL_CHECK(ncclCommCount(comm_, &size_));
  }
  ~NcclCommunicator() override {
    watchdog_->destroy(comm_);
    if (barrier_word_) device_.deallocate(barrier_word_);
  }
  NcclCommunicator(NcclCommunicator const&) = delete;
  NcclCommunicator& operator=(NcclCommunicator const&) = delete;

  std::string_view backend() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool has_tags() const override { return false; }

  std::unique_ptr<Communicator> split(int color, int key) override {
    ncclComm_t sub = nullptr;
    watchdog_->settle(ncclCommSplit(comm_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &sub, nullptr), comm_,
                      "ncclCommSplit", __FILE__, __LINE__);
    if (!sub) return nullptr;
    watchdog_->settle(ncclInProgress, sub, "ncclCommSplit", __FILE__, __LINE__);
    watchdog_->add(sub);
    return std::make_unique<NcclCommunicator>(sub, watchdog_, device_);
  }

  void all_reduce(BufferView data, ReduceOp op, Stream& stream) override {
    count(data.bytes());
    enqueue("ncclAllReduce", data.count, stream, [&](cudaStream_t queue) {
      return ncclAllReduce(data.data, data.data, data.count, to_nccl(data.dtype), to_nccl(op, data.dtype), comm_,
                           queue);
    });
  }

  void reduce_scatter(BufferView from, BufferView to, Stream& stream) override {
    validate_shards(from, to, "reduce_scatter");
    count(from.bytes());
    enqueue("ncclReduceScatter", to.count, stream, [&](cudaStream_t queue) {
      return ncclReduceScatter(from.data, to.data, to.count, to_nccl(from.dtype), to_nccl(ReduceOp::sum, from.dtype),
                               comm_, queue);
    });
  }

  void all_gather(BufferView from, BufferView to, Stream& stream) override {
    validate_shards(to, from, "all_gather");
    count(to.bytes());
    enqueue("ncclAllGather", from.count, stream, [&](cudaStream_t queue) {
      return ncclAllGather(from.data, to.data, from.count, to_nccl(from.dtype), comm_, queue);
    });
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream& stream) override {
    validate_blocks(from, send_counts, "sent");
    validate_blocks(to, receive_counts, "received");
    VALIDATE(from.dtype == to.dtype, "all_to_all buffers differ in dtype");
    count(from.bytes());
    enqueue("all-to-all (ncclGroupEnd)", from.count + to.count, stream,
            [&](cudaStream_t queue) { return exchange(from, send_counts, to, receive_counts, queue); });
  }

  void broadcast(BufferView data, int root, Stream& stream) override {
    count(data.bytes());
    enqueue("ncclBroadcast", data.count, stream, [&](cudaStream_t queue) {
      return ncclBroadcast(data.data, data.data, data.count, to_nccl(data.dtype), root, comm_, queue);
    });
  }

  void send(BufferView data, int peer, int, Stream& stream) override {
    count(data.bytes());
    enqueue("ncclSend", data.count, stream, [&](cudaStream_t queue) {
      return ncclSend(data.data, data.count, to_nccl(data.dtype), peer, comm_, queue);
    });
  }

  void receive(BufferView data, int peer, int, Stream& stream) override {
    count(0);
    enqueue("ncclRecv", data.count, stream, [&](cudaStream_t queue) {
      return ncclRecv(data.data, data.count, to_nccl(data.dtype), peer, comm_, queue);
    });
  }

  void watch(Stream& stream, char const* name) override {
    watchdog_->check();
    watchdog_->issued(static_cast<cudaStream_t>(stream.native()), name);
  }

  void barrier() override {
    if (!barrier_word_) {
      barrier_word_ = device_.allocate(sizeof(float));
      barrier_stream_ = device_.make_stream(StreamKind::comm);
      device_.fill_bytes(barrier_word_, 0, sizeof(float), *barrier_stream_);
    }
    enqueue("barrier (ncclAllReduce)", 1, *barrier_stream_, [&](cudaStream_t queue) {
      return ncclAllReduce(barrier_word_, barrier_word_, 1, ncclFloat32, ncclSum, comm_, queue);
    });
    barrier_stream_->synchronize();
  }

 private:
  /// Puts one call on the stream; an empty one is left out, which every rank does alike.
  template <class Call>
  void enqueue(char const* name, std::size_t elements, Stream& stream, Call const& call) {
    watchdog_->check();
    if (elements == 0) return;
    auto const queue = static_cast<cudaStream_t>(stream.native());
    watchdog_->settle(call(queue), comm_, name, __FILE__, __LINE__);
    watchdog_->issued(queue, name);
  }

  ncclResult_t exchange(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                        std::vector<std::size_t> const& receive_counts, cudaStream_t queue) {
    NCCL_CHECK(ncclGroupStart());
    ncclResult_t failed = ncclSuccess;
    auto const keep_failure = [&](ncclResult_t code) {
      if (code != ncclSuccess && code != ncclInProgress) failed = code;
    };
    std::size_t sent = 0, received = 0;
    for (std::size_t peer = 0; peer < send_counts.size(); ++peer) {
      int const rank = static_cast<int>(peer);
      if (send_counts[peer] > 0)
        keep_failure(ncclSend(at(from, sent), send_counts[peer], to_nccl(from.dtype), rank, comm_, queue));
      if (receive_counts[peer] > 0)
        keep_failure(ncclRecv(at(to, received), receive_counts[peer], to_nccl(to.dtype), rank, comm_, queue));
      sent += send_counts[peer];
      received += receive_counts[peer];
    }
    ncclResult_t const ended = ncclGroupEnd();  // always: an open group would swallow every later call
    return failed == ncclSuccess ? ended : failed;
  }

  void validate_shards(BufferView whole, BufferView shard, char const* call) const {
    VALIDATE(whole.dtype == shard.dtype && whole.count == size_ * shard.count,
             std::string(call) + ": " + std::to_string(whole.count) + " elements over " + std::to_string(size_) +
                 " ranks, " + std::to_string(shard.count) + " per rank");
  }

  void validate_blocks(BufferView view, std::vector<std::size_t> const& counts, char const* what) const {
    bool const fits =
        std::ssize(counts) == size_ && std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == view.count;
    VALIDATE(fits, std::string("all_to_all: the ") + what + " blocks do not add up to the buffer of " +
                       std::to_string(view.count) + " elements");
  }

  ncclComm_t comm_;
  std::shared_ptr<NcclWatchdog> watchdog_;
  CudaDevice& device_;
  int rank_ = 0, size_ = 1;
  void* barrier_word_ = nullptr;
  std::unique_ptr<Stream> barrier_stream_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& bootstrap, CudaDevice& device,
                                                     double timeout_seconds) {
  ncclUniqueId id{};
  if (bootstrap.rank() == 0) NCCL_CHECK(ncclGetUniqueId(&id));
  NoStream none;
  bootstrap.broadcast({id.internal, sizeof id.internal, Dtype::u8}, 0, none);
  auto const watchdog = std::make_shared<NcclWatchdog>(device.context(), timeout_seconds);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t const code = ncclCommInitRankConfig(&comm, bootstrap.size(), id, bootstrap.rank(), &config);
  watchdog->settle(code, comm, "ncclCommInitRankConfig", __FILE__, __LINE__);
  watchdog->add(comm);
  return std::make_unique<NcclCommunicator>(comm, watchdog, device);
}

std::string nccl_version() {
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version));
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace shardbench

extern "C" shardbench::Communicator* shardbench_make_nccl_communicator(shardbench::Communicator* bootstrap,
                                                                       shardbench::Device* device,
                                                                       double timeout_seconds, char* error,
                                                                       std::size_t error_size) {
  try {
    auto& cuda_device = static_cast<shardbench::CudaDevice&>(*device);
    return shardbench::make_nccl_communicator(*bootstrap, cuda_device, timeout_seconds).release();
  } catch (std::exception const& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return nullptr;
  }
}
