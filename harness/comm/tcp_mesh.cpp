#include "harness/comm/tcp_mesh.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "harness/comm/tcp_meeting.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

struct Header {
  TcpMesh::Key key;
  std::uint64_t bytes = 0;
};

/// What one message may hold: more is a length that went wrong on its way, not a tensor.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 38;
/// Memory is taken as the bytes come, so that a wrong length takes none.
constexpr std::uint64_t step_bytes = std::uint64_t{64} << 20;

}  // namespace

TcpMesh::TcpMesh(Rendezvous const& rendezvous, double timeout_seconds, double patience_seconds)
    : rank_(rendezvous.rank), size_(rendezvous.size), patience_(patience_seconds) {
  VALIDATE(size_ >= 1 && rank_ >= 0 && rank_ < size_, fmt::format("rank {} of {} is no rank", rank_, size_));
  for (int r = 0; r < size_; ++r) peers_.push_back(std::make_unique<Peer>());
  std::vector<Socket> sockets = meet(rendezvous, now_seconds() + timeout_seconds);
  for (int r = 0; r < size_; ++r) peers_[r]->socket = std::move(sockets[r]), peers_[r]->last_heard = now_seconds();
  timeval const patience{static_cast<time_t>(patience_),
                         static_cast<suseconds_t>(1e6 * (patience_ - std::floor(patience_)))};
  for (auto const& peer : peers_) setsockopt(peer->socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) peers_[r]->reader = std::thread([this, r] { read_all(*peers_[r]); });
}

TcpMesh::~TcpMesh() {
  // First say that nothing more comes, then read on: closing with unread messages would take back those just sent.
  // After a failure nobody is waited for: a rank that hangs never says that it is done.
  for (auto const& peer : peers_)
    if (peer->socket.get() >= 0) ::shutdown(peer->socket.get(), broken_ ? SHUT_RDWR : SHUT_WR);
  for (auto const& peer : peers_)
    if (peer->reader.joinable()) peer->reader.join();
}

/// False when the peer left in the middle, or what it announced is no message.
bool TcpMesh::read_message(Peer& peer, std::vector<std::byte>& message, std::uint64_t bytes) {
  if (bytes > most_bytes) return false;
  while (message.size() < bytes) {
    std::size_t const have = message.size();
    message.resize(have + std::min(bytes - have, step_bytes));
    if (!read_exactly(peer.socket.get(), message.data() + have, message.size() - have)) return false;
    std::lock_guard const lock(peer.receiving);
    peer.last_heard = now_seconds();
  }
  return true;
}

void TcpMesh::read_all(Peer& peer) {
  for (Header header; read_exactly(peer.socket.get(), &header, sizeof header);) {
    std::vector<std::byte> message;
    if (!read_message(peer, message, header.bytes)) break;
    std::lock_guard const lock(peer.receiving);
    peer.last_heard = now_seconds();
    peer.inbox[header.key].push_back(std::move(message));
    peer.arrived.notify_all();
  }
  std::lock_guard const lock(peer.receiving);
  peer.gone = true;
  peer.arrived.notify_all();
}

TcpMesh::Peer& TcpMesh::peer_of(int rank) {
  VALIDATE(rank >= 0 && rank < size_ && rank != rank_, fmt::format("rank {} is no peer of rank {}", rank, rank_));
  return *peers_[rank];
}

void TcpMesh::fail(std::string const& problem) {
  broken_ = true;
  throw Error(problem);
}

void TcpMesh::send(int peer, Key const& key, void const* data, std::size_t bytes) {
  Peer& to = peer_of(peer);
  VALIDATE(bytes <= most_bytes, fmt::format("a message of {} bytes, {} at most", bytes, most_bytes));
  std::lock_guard const lock(to.sending);
  Header const header{key, bytes};
  if (!write_all(to.socket.get(), &header, sizeof header) || !write_all(to.socket.get(), data, bytes))
    fail(errno == EAGAIN ? fmt::format("rank {} has taken nothing for {:g} s: it is stopped or hangs", peer, patience_)
                         : fmt::format("rank {} has left the job", peer));
}

void TcpMesh::receive(int peer, Key const& key, void* data, std::size_t bytes) {
  Peer& from = peer_of(peer);
  std::unique_lock lock(from.receiving);
  auto const found = [&] { return from.inbox.find(key); };
  auto const over = [&] { return from.gone || found() != from.inbox.end(); };
  for (double const began = now_seconds(); !over();) {
    double const left = std::max(began, from.last_heard) + patience_ - now_seconds();
    if (left <= 0) fail(fmt::format("rank {} has sent nothing for {:g} s: it is stopped or hangs", peer, patience_));
    from.arrived.wait_for(lock, std::chrono::duration<double>(left));
  }
  auto const waiting = found();
  if (waiting == from.inbox.end()) fail(fmt::format("rank {} has left the job", peer));
  std::vector<std::byte> const message = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty()) from.inbox.erase(waiting);
  lock.unlock();
  VALIDATE(message.size() == bytes,
           fmt::format("message of {} bytes from rank {}, {} expected", message.size(), peer, bytes));
  if (bytes > 0) std::memcpy(data, message.data(), bytes);
}

}  // namespace shardbench
