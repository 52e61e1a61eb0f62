#include "harness/comm/buffers.hpp"
#include "harness/comm/communicator.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() : Communicator("self") {}

  std::unique_ptr<Communicator> split(int color, int) final {
    return color < 0 ? nullptr : std::make_unique<SelfCommunicator>();
  }

  void all_reduce(BufferView data, ReduceOp, Stream&) final { count(data.bytes()); }

  void reduce_scatter(BufferView from, BufferView to, Stream&) final {
    copy_all(from, to);
    count(from.bytes());
  }

  void all_gather(BufferView from, BufferView to, Stream&) final {
    copy_all(from, to);
    count(to.bytes());
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream&) final {
    VALIDATE(send_counts.size() == 1 && receive_counts.size() == 1, "a group of one exchanges exactly one block");
    VALIDATE(send_counts[0] == from.count && receive_counts[0] == to.count, "block counts differ from the buffers");
    copy_all(from, to);
    count(from.bytes());
  }

  void broadcast(BufferView data, int root, Stream&) final {
    VALIDATE(root == 0, "broadcast root " + std::to_string(root) + " is outside a group of one");
    count(data.bytes());
  }

  void send(BufferView, int, int, Stream&) final { VALIDATE(false, "send in a group of one (it has no peer)"); }
  void receive(BufferView, int, int, Stream&) final { VALIDATE(false, "receive in a group of one (it has no peer)"); }
  void barrier() final {}

 private:
  static void copy_all(BufferView from, BufferView to) {
    VALIDATE(from.count == to.count && from.dtype == to.dtype, "buffers of a group of one differ in count or dtype");
    copy(from, to);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() { return std::make_unique<SelfCommunicator>(); }

}  // namespace shardbench
