#include "harness/comm/communicator_nccl.hpp"

#include <array>
#include <cstdio>

#include "harness/comm/buffers.hpp"
#include "harness/comm/watchdog_nccl.hpp"
#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

ncclDataType_t to_nccl(Dtype dtype) {
  static constexpr std::array types{ncclFloat32, ncclBfloat16, ncclFloat64, ncclInt32, ncclUint8, ncclUint8, ncclUint8};
  static_assert(types.size() == enum_count<Dtype>);
  return types.at(static_cast<int>(dtype));
}

ncclRedOp_t to_nccl(ReduceOp op, Dtype dtype) {
  validate_reducible(dtype);
  return op == ReduceOp::sum ? ncclSum : ncclMax;
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
      : Communicator("nccl"), comm_(comm), watchdog_(std::move(watchdog)), device_(device) {
    NCCL_CHECK(ncclCommUserRank(comm_, &rank_));
    NCCL_CHECK(ncclCommCount(comm_, &size_));
  }
  ~NcclCommunicator() override {
    watchdog_->destroy(comm_);
    if (barrier_word_) device_.deallocate(barrier_word_);
  }
  NcclCommunicator(NcclCommunicator const&) = delete;
  NcclCommunicator& operator=(NcclCommunicator const&) = delete;

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
    validate_shards(from, to, size_, "reduce_scatter");
    count(from.bytes());
    enqueue("ncclReduceScatter", to.count, stream, [&](cudaStream_t queue) {
      return ncclReduceScatter(from.data, to.data, to.count, to_nccl(from.dtype), to_nccl(ReduceOp::sum, from.dtype),
                               comm_, queue);
    });
  }

  void all_gather(BufferView from, BufferView to, Stream& stream) override {
    validate_shards(to, from, size_, "all_gather");
    count(to.bytes());
    enqueue("ncclAllGather", from.count, stream, [&](cudaStream_t queue) {
      return ncclAllGather(from.data, to.data, from.count, to_nccl(from.dtype), comm_, queue);
    });
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream& stream) override {
    validate_blocks(from, send_counts, size_, "sent");
    validate_blocks(to, receive_counts, size_, "received");
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
    std::vector<BufferView> const sent = blocks_of(from, send_counts), received = blocks_of(to, receive_counts);
    for (int peer = 0; peer < size_; ++peer) {
      auto const [out, in] = std::pair(sent[peer], received[peer]);
      if (out.count > 0) keep_failure(ncclSend(out.data, out.count, to_nccl(out.dtype), peer, comm_, queue));
      if (in.count > 0) keep_failure(ncclRecv(in.data, in.count, to_nccl(in.dtype), peer, comm_, queue));
    }
    ncclResult_t const ended = ncclGroupEnd();  // always: an open group would swallow every later call
    return failed == ncclSuccess ? ended : failed;
  }

  ncclComm_t comm_;
  std::shared_ptr<NcclWatchdog> watchdog_;
  CudaDevice& device_;
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
