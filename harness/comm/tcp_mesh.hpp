#pragma once
#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harness/comm/launch_env.hpp"
#include "harness/comm/tcp_socket.hpp"

namespace shardbench {

/// One connection to every other rank of a job without MPI; messages are told apart by group and tag. Any thread may
/// send or receive; a message that nobody waits for yet is kept, so a send never waits for its receiver's call.
class TcpMesh {
 public:
  /// Meets the other ranks. See make_tcp_communicator for its errors. Collective.
  TcpMesh(Rendezvous const& rendezvous, double timeout_seconds, double patience_seconds);
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
  /// Throws Error when the peer has left the job, its message is not `bytes` long, or nothing at all came from it for
  /// the patience that the mesh was made with: it is stopped or hangs.
  void receive(int peer, Key const& key, void* data, std::size_t bytes);

 private:
  struct Peer {
    Socket socket;
    std::mutex sending;
    std::mutex receiving;  ///< guards all below
    std::condition_variable arrived;
    std::map<Key, std::deque<std::vector<std::byte>>> inbox;
    bool gone = false;
    double last_heard = 0;  ///< now_seconds() at its last bytes
    std::thread reader;
  };
  Peer& peer_of(int rank);
  void read_all(Peer& peer);
  bool read_message(Peer& peer, std::vector<std::byte>& message, std::uint64_t bytes);

  [[noreturn]] void fail(std::string const& problem);

  int rank_, size_;
  double patience_;
  std::atomic<bool> broken_ = false;          ///< a peer failed: nothing more is waited for
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; this rank's own has no socket
};

}  // namespace shardbench
