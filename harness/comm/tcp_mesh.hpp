#pragma once
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/comm/launch_env.hpp"

namespace shardbench {

/// A socket, closed with its owner.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int get() const { return descriptor_; }
  int release();

 private:
  int descriptor_;
};

/// One connection to every other rank of a job without MPI; messages are told apart by group and tag. Any thread may
/// send or receive; a message that nobody waits for yet is kept, so a send never waits for its receiver's call.
class TcpMesh {
 public:
  /// Meets the other ranks. See make_tcp_communicator for its errors. Collective.
  TcpMesh(Rendezvous const& rendezvous, double timeout_seconds);
  /// Waits until every other rank is done too. Collective.
  ~TcpMesh();
  TcpMesh(TcpMesh const&) = delete;
  TcpMesh& operator=(TcpMesh const&) = delete;

  /// What a message belongs to.
  struct Key {
    std::uint64_t group = 0;
    std::int64_t tag = 0;
    auto operator<=>(Key const&) const = default;
  };
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Throws Error when the peer has left the job.
  void send(int peer, Key const& key, void const* data, std::size_t bytes);
  /// Throws Error when the peer has left the job, or its message is not `bytes` long.
  void receive(int peer, Key const& key, void* data, std::size_t bytes);

 private:
  struct Peer {
    Socket socket;
    std::mutex sending;
    std::mutex receiving;  ///< guards all below
    std::condition_variable arrived;
    std::map<Key, std::deque<std::vector<std::byte>>> inbox;
    bool gone = false;
    std::thread reader;
  };
  void meet_as_other(Rendezvous const& rendezvous, double deadline);
  void meet_as_first(Rendezvous const& rendezvous, double deadline);
  Peer& peer_of(int rank);
  void read_all(Peer& peer);

  int rank_, size_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; this rank's own has no socket
};

}  // namespace shardbench
