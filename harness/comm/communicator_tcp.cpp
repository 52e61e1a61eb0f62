#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "harness/comm/buffers.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/comm/tcp_mesh.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

void reduce_into(BufferView into, void const* from, ReduceOp op) {
  validate_reducible(into.dtype);
  switch (into.dtype) {
    case Dtype::f32:
      return reduce_elements<float>(from, into.data, into.count, op);
    case Dtype::f64:
      return reduce_elements<double>(from, into.data, into.count, op);
    case Dtype::i32:
      return reduce_elements<std::int32_t>(from, into.data, into.count, op);
    default:
      return reduce_elements<Bf16>(from, into.data, into.count, op);
  }
}

std::uint64_t mixed(std::uint64_t x) {  // the finaliser of splitmix64 [Steele et al. 2014]
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(std::shared_ptr<TcpMesh> mesh, std::vector<int> members, std::uint64_t group)
      : Communicator("tcp"), mesh_(std::move(mesh)), members_(std::move(members)), group_(group) {
    rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), mesh_->rank()) - members_.begin());
    size_ = static_cast<int>(members_.size());
  }

  std::unique_ptr<Communicator> split(int color, int key) final {
    struct Seat {
      std::int32_t color, key, member;
    };
    Seat const own{color, key, mesh_->rank()};
    std::vector<Seat> seats(members_.size());
    gather_bytes(&own, seats.data(), sizeof own);
    std::erase_if(seats, [&](Seat const& seat) { return seat.color != color; });
    std::stable_sort(seats.begin(), seats.end(), [](Seat const& a, Seat const& b) { return a.key < b.key; });
    std::uint64_t const group = mixed(mixed(group_ + ++splits_) + static_cast<std::uint64_t>(color));
    if (color < 0) return nullptr;
    std::vector<int> members;
    for (Seat const& seat : seats) members.push_back(seat.member);
    return std::make_unique<TcpCommunicator>(mesh_, std::move(members), group);
  }

  /// Each rank reduces its piece, then all pieces go to all: every rank ends with the same bits.
  void all_reduce(BufferView data, ReduceOp op, Stream&) final {
    count(data.bytes());
    std::size_t const piece = (data.count + size_ - 1) / size_;
    auto const piece_of = [&](int r) {
      std::size_t const first = std::min(r * piece, data.count);
      return part(data, first, std::min(piece, data.count - first));
    };
    std::int64_t const tag = next_tag();
    each_other([&](int r) { put(r, tag, piece_of(r)); });
    reduce_in_rank_order(piece_of(rank_), op, tag);
    each_other([&](int r) { put(r, tag, piece_of(rank_)); });
    each_other([&](int r) { take(r, tag, piece_of(r)); });
  }

  void reduce_scatter(BufferView from, BufferView to, Stream&) final {
    validate_shards(from, to, size_, "reduce_scatter");
    count(from.bytes());
    bool const in_place = is_in_place(from, to, rank_, "reduce_scatter output overlaps its input");
    std::int64_t const tag = next_tag();
    auto const block = [&](int r) { return part(from, r * to.count, to.count); };
    each_other([&](int r) { put(r, tag, block(r)); });
    if (!in_place) copy(block(rank_), to);
    reduce_in_rank_order(to, ReduceOp::sum, tag);
  }

  void all_gather(BufferView from, BufferView to, Stream&) final {
    validate_shards(to, from, size_, "all_gather");
    count(to.bytes());
    is_in_place(to, from, rank_, "all_gather input overlaps its output");
    gather_bytes(from.data, to.data, from.bytes());
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream&) final {
    validate_exchange(from, send_counts, to, receive_counts, rank_, size_);
    count(from.bytes());
    std::int64_t const tag = next_tag();
    auto const sent = blocks_of(from, send_counts), received = blocks_of(to, receive_counts);
    each_other([&](int r) { put(r, tag, sent[r]); });
    copy(sent[rank_], received[rank_]);
    each_other([&](int r) { take(r, tag, received[r]); });
  }

  void broadcast(BufferView data, int root, Stream&) final {
    validate_peer(root);
    count(data.bytes());
    std::int64_t const tag = next_tag();
    if (root != rank_) return take(root, tag, data);
    each_other([&](int r) { put(r, tag, data); });
  }

  void send(BufferView data, int peer, int tag, Stream&) final {
    validate_peer(peer);
    VALIDATE(tag >= 0, fmt::format("tag {} is negative", tag));
    count(data.bytes());
    put(peer, tag, data);
  }

  void receive(BufferView data, int peer, int tag, Stream&) final {
    validate_peer(peer);
    count(0);
    take(peer, tag, data);
  }

  void barrier() final {
    std::byte const here{};
    std::vector<std::byte> all(size_);
    gather_bytes(&here, all.data(), 1);
  }

 private:
  template <class Visit>
  void each_other(Visit visit) const {
    for (int r = 0; r < size_; ++r)
      if (r != rank_) visit(r);
  }

  /// Collectives of a group are told apart by how many there were; callers' own tags are 0 and above.
  std::int64_t next_tag() { return -++collectives_; }

  void validate_peer(int peer) const {
    VALIDATE(peer >= 0 && peer < size_, fmt::format("rank {} is outside a group of {}", peer, size_));
  }

  void put(int to, std::int64_t tag, BufferView data) {
    mesh_->send(members_[to], {group_, tag}, data.data, data.bytes());
  }
  void take(int from, std::int64_t tag, BufferView data) {
    mesh_->receive(members_[from], {group_, tag}, data.data, data.bytes());
  }

  void gather_bytes(void const* own, void* all, std::size_t bytes) {
    std::int64_t const tag = next_tag();
    auto const place = [&](int r) { return static_cast<std::byte*>(all) + r * bytes; };
    each_other([&](int r) { mesh_->send(members_[r], {group_, tag}, own, bytes); });
    if (place(rank_) != own && bytes > 0) std::memcpy(place(rank_), own, bytes);
    each_other([&](int r) { mesh_->receive(members_[r], {group_, tag}, place(r), bytes); });
  }

  /// own = the sum (or maximum) of the ranks' pieces, this rank's among them, added from rank 0 upwards.
  void reduce_in_rank_order(BufferView own, ReduceOp op, std::int64_t tag) {
    std::vector<std::byte> mine(own.bytes()), other(own.bytes());
    copy(own, {mine.data(), own.count, own.dtype});
    for (int r = 0; r < size_; ++r) {
      BufferView const now{r == rank_ ? mine.data() : other.data(), own.count, own.dtype};
      if (r != rank_) take(r, tag, now);
      if (r == 0)
        copy(now, own);
      else
        reduce_into(own, now.data, op);
    }
  }

  std::shared_ptr<TcpMesh> mesh_;
  std::vector<int> members_;  ///< ranks of the job, by rank of the group
  std::uint64_t group_;
  std::uint64_t splits_ = 0;
  std::int64_t collectives_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_tcp_communicator(Rendezvous const& rendezvous, double timeout_seconds,
                                                    double patience_seconds) {
  auto mesh = std::make_shared<TcpMesh>(rendezvous, timeout_seconds, patience_seconds);
  std::vector<int> everyone(mesh->size());
  std::iota(everyone.begin(), everyone.end(), 0);
  return std::make_unique<TcpCommunicator>(std::move(mesh), std::move(everyone), 0);
}

}  // namespace shardbench
