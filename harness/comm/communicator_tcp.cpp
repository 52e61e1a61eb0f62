#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "harness/comm/buffers.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/comm/tcp_mesh.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

template <class T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
void combine(void const* from, void* into, std::size_t count, ReduceOp op) {
  auto const* a = static_cast<T const*>(from);
  auto* b = static_cast<T*>(into);
  for (std::size_t i = 0; i < count; ++i) b[i] = op == ReduceOp::sum ? static_cast<T>(a[i] + b[i]) : larger(a[i], b[i]);
}

template <>
void combine<Bf16>(void const* from, void* into, std::size_t count, ReduceOp op) {
  auto const* a = static_cast<Bf16 const*>(from);
  auto* b = static_cast<Bf16*>(into);
  for (std::size_t i = 0; i < count; ++i) {
    float const x = to_float(a[i]), y = to_float(b[i]);
    b[i] = to_bf16(op == ReduceOp::sum ? x + y : larger(x, y));
  }
}

void reduce_into(BufferView into, void const* from, ReduceOp op) {
  switch (into.dtype) {
    case Dtype::f32:
      return combine<float>(from, into.data, into.count, op);
    case Dtype::f64:
      return combine<double>(from, into.data, into.count, op);
    case Dtype::i32:
      return combine<std::int32_t>(from, into.data, into.count, op);
    case Dtype::bf16:
      return combine<Bf16>(from, into.data, into.count, op);
    default:
      throw_error(__FILE__, __LINE__,
                  fmt::format("cannot reduce {} (fp32, bf16, fp64 and int32 are reduced)", to_string(into.dtype)));
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
      : mesh_(std::move(mesh)), members_(std::move(members)), group_(group) {
    rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), mesh_->rank()) - members_.begin());
  }

  std::string_view backend() const final { return "tcp"; }
  int rank() const final { return rank_; }
  int size() const final { return static_cast<int>(members_.size()); }

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
    std::size_t const piece = (data.count + size() - 1) / size();
    auto const piece_of = [&](int r) {
      std::size_t const first = std::min(r * piece, data.count);
      return part(data, first, std::min(piece, data.count - first));
    };
    std::int64_t const tag = next_tag();
    for (int r = 0; r < size(); ++r)
      if (r != rank_) put(r, tag, piece_of(r));
    reduce_in_rank_order(piece_of(rank_), op, tag);
    for (int r = 0; r < size(); ++r)
      if (r != rank_) put(r, tag, piece_of(rank_));
    for (int r = 0; r < size(); ++r)
      if (r != rank_) take(r, tag, piece_of(r));
  }

  void reduce_scatter(BufferView from, BufferView to, Stream&) final {
    validate_shards(from, to, size(), "reduce_scatter");
    count(from.bytes());
    bool const in_place = overlapping(from, to);
    BufferView const own = part(from, rank_ * to.count, to.count);
    VALIDATE(!in_place || to.data == own.data,
             "reduce_scatter output overlaps its input (only this rank's own block may)");
    std::int64_t const tag = next_tag();
    for (int r = 0; r < size(); ++r)
      if (r != rank_) put(r, tag, part(from, r * to.count, to.count));
    if (!in_place) copy(own, to);
    reduce_in_rank_order(to, ReduceOp::sum, tag);
  }

  void all_gather(BufferView from, BufferView to, Stream&) final {
    validate_shards(to, from, size(), "all_gather");
    count(to.bytes());
    BufferView const own = part(to, rank_ * from.count, from.count);
    VALIDATE(!overlapping(from, to) || from.data == own.data,
             "all_gather input overlaps its output (only this rank's own block may)");
    if (from.data != own.data) copy(from, own);
    gather_bytes(own.data, to.data, from.bytes());
  }

  void all_to_all(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                  std::vector<std::size_t> const& receive_counts, Stream&) final {
    validate_blocks(from, send_counts, size(), "sent");
    validate_blocks(to, receive_counts, size(), "received");
    VALIDATE(from.dtype == to.dtype && !overlapping(from, to), "all_to_all buffers overlap or differ in dtype");
    VALIDATE(send_counts[rank_] == receive_counts[rank_], "all_to_all: a rank's own block has two sizes");
    count(from.bytes());
    std::int64_t const tag = next_tag();
    BufferView own{nullptr, 0, from.dtype};
    std::size_t first = 0;
    for (int r = 0; r < size(); ++r) {
      BufferView const block = part(from, first, send_counts[r]);
      first += block.count;
      if (r == rank_)
        own = block;
      else
        put(r, tag, block);
    }
    first = 0;
    for (int r = 0; r < size(); ++r) {
      BufferView const block = part(to, first, receive_counts[r]);
      first += block.count;
      if (r == rank_)
        copy(own, block);
      else
        take(r, tag, block);
    }
  }

  void broadcast(BufferView data, int root, Stream&) final {
    validate_peer(root);
    count(data.bytes());
    std::int64_t const tag = next_tag();
    if (root != rank_) return take(root, tag, data);
    for (int r = 0; r < size(); ++r)
      if (r != rank_) put(r, tag, data);
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
    std::vector<std::byte> all(size());
    gather_bytes(&here, all.data(), 1);
  }

 private:
  /// Collectives of a group are told apart by how many there were; callers' own tags are 0 and above.
  std::int64_t next_tag() { return -++collectives_; }

  void validate_peer(int peer) const {
    VALIDATE(peer >= 0 && peer < size(), fmt::format("rank {} is outside a group of {}", peer, size()));
  }

  static void copy(BufferView from, BufferView to) {
    if (from.bytes() > 0) std::memmove(to.data, from.data, from.bytes());
  }

  void put(int to, std::int64_t tag, BufferView data) {
    mesh_->send(members_[to], {group_, tag}, data.data, data.bytes());
  }
  void take(int from, std::int64_t tag, BufferView data) {
    mesh_->receive(members_[from], {group_, tag}, data.data, data.bytes());
  }

  void gather_bytes(void const* own, void* all, std::size_t bytes) {
    std::int64_t const tag = next_tag();
    for (int r = 0; r < size(); ++r)
      if (r != rank_) mesh_->send(members_[r], {group_, tag}, own, bytes);
    for (int r = 0; r < size(); ++r) {
      auto* const place = static_cast<std::byte*>(all) + r * bytes;
      if (r != rank_)
        mesh_->receive(members_[r], {group_, tag}, place, bytes);
      else if (place != own)
        std::memcpy(place, own, bytes);
    }
  }

  /// own = the sum (or maximum) of the ranks' pieces, this rank's among them, added from rank 0 upwards.
  void reduce_in_rank_order(BufferView own, ReduceOp op, std::int64_t tag) {
    std::vector<std::byte> mine(own.bytes()), other(own.bytes());
    copy(own, {mine.data(), own.count, own.dtype});
    for (int r = 0; r < size(); ++r) {
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
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_tcp_communicator(Rendezvous const& rendezvous, double timeout_seconds) {
  auto mesh = std::make_shared<TcpMesh>(rendezvous, timeout_seconds);
  std::vector<int> everyone(mesh->size());
  std::iota(everyone.begin(), everyone.end(), 0);
  return std::make_unique<TcpCommunicator>(std::move(mesh), std::move(everyone), 0);
}

}  // namespace shardbench
