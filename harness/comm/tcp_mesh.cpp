#include "harness/comm/tcp_mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// An address of either family.
struct Address {
  sockaddr_storage bytes{};
  socklen_t length = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&bytes); }
  bool is_loopback() const {
    if (bytes.ss_family == AF_INET)
      return (ntohl(reinterpret_cast<sockaddr_in const*>(&bytes)->sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<sockaddr_in6 const*>(&bytes)->sin6_addr) != 0;
  }
  // Where both families keep their port.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  void set_port(std::uint16_t port) { reinterpret_cast<sockaddr_in*>(&bytes)->sin_port = htons(port); }
  std::uint16_t port() const { return ntohs(reinterpret_cast<sockaddr_in const*>(&bytes)->sin_port); }
};

/// What a rank says of itself when it comes to rank 0 (with the port where higher ranks find it), or to a lower one.
struct Hello {
  static constexpr std::uint64_t word = 0x73686172646d6573;
  std::uint64_t magic = word;
  std::int32_t rank = 0, size = 0;
  std::int32_t port = 0;
};

struct Header {
  TcpMesh::Key key;
  std::uint64_t bytes = 0;
};

/// Calls ::send or ::recv until all bytes are through; false when the other side is gone.
template <class Byte, class Transfer>
bool transfer_all(Transfer transfer, int socket, Byte* at, std::size_t bytes, int flags) {
  while (bytes > 0) {
    ssize_t const n = transfer(socket, at, bytes, flags);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n, bytes -= n;
  }
  return true;
}

bool write_all(int socket, void const* data, std::size_t bytes) {
  return transfer_all(::send, socket, static_cast<char const*>(data), bytes, MSG_NOSIGNAL);
}

bool read_exactly(int socket, void* data, std::size_t bytes) {
  return transfer_all(::recv, socket, static_cast<char*>(data), bytes, 0);
}

bool readable_before(int socket, double deadline) {
  pollfd wanted{socket, POLLIN, 0};
  int const wait = static_cast<int>(std::max(0.0, deadline - now_seconds()) * 1000);
  return ::poll(&wanted, 1, wait) > 0;
}

void send_at_once(int socket) {
  int const on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Address address_of(Rendezvous const& r) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const code = getaddrinfo(r.address.c_str(), std::to_string(r.port).c_str(), &hints, &found);
  if (code != 0)
    throw InputError(fmt::format("environment variable MASTER_ADDR is '{}': {}; a host name or an IP is allowed",
                                 r.address, gai_strerror(code)));
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  VALIDATE(socket.get() >= 0, fmt::format("no socket is to be had ({})", std::strerror(errno)));
  return socket;
}

/// Listens on every interface; port 0 takes a free one.
Socket listen_on(int family, int port) {
  Socket socket = make_socket(family);
  int const on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  Address any;
  any.bytes.ss_family = static_cast<sa_family_t>(family);  // all zero otherwise: any interface, in both families
  any.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  any.set_port(static_cast<std::uint16_t>(port));
  if (::bind(socket.get(), any.get(), any.length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    throw InputError(fmt::format("environment variable MASTER_PORT: rank 0 cannot listen on port {} ({})", port,
                                 std::strerror(errno)));
  return socket;
}

/// Tries until the deadline: the other side may not listen yet.
Socket connect_to(Address const& address, double deadline, int rank) {
  for (;;) {
    Socket socket = make_socket(address.bytes.ss_family);
    if (::connect(socket.get(), address.get(), address.length) == 0) {
      send_at_once(socket.get());
      return socket;
    }
    if (now_seconds() >= deadline)
      throw Error(
          fmt::format("rank {} is not to be reached at port {} ({})", rank, address.port(), std::strerror(errno)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// The next caller that speaks our language, with what it said; an empty socket once the deadline has passed.
std::pair<Socket, Hello> accept_hello(Socket const& listener, double deadline, Address* from) {
  while (readable_before(listener.get(), deadline)) {
    Address address;
    Socket caller(::accept4(listener.get(), address.get(), &address.length, SOCK_CLOEXEC));
    Hello hello;
    if (caller.get() < 0 || !readable_before(caller.get(), std::min(deadline, now_seconds() + 5))) continue;
    if (!read_exactly(caller.get(), &hello, sizeof hello) || hello.magic != Hello::word) continue;  // a stranger
    send_at_once(caller.get());
    if (from) *from = address;
    return {std::move(caller), hello};
  }
  return {Socket(), Hello()};
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = other.release();
  }
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int Socket::release() { return std::exchange(descriptor_, -1); }

TcpMesh::TcpMesh(Rendezvous const& rendezvous, double timeout_seconds)
    : rank_(rendezvous.rank), size_(rendezvous.size) {
  VALIDATE(size_ >= 1 && rank_ >= 0 && rank_ < size_, fmt::format("rank {} of {} is no rank", rank_, size_));
  for (int r = 0; r < size_; ++r) peers_.push_back(std::make_unique<Peer>());
  if (size_ == 1) return;
  double const deadline = now_seconds() + timeout_seconds;
  if (rank_ == 0)
    meet_as_first(rendezvous, deadline);
  else
    meet_as_other(rendezvous, deadline);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) peers_[r]->reader = std::thread([this, r] { read_all(*peers_[r]); });
}

TcpMesh::~TcpMesh() {
  // First say that nothing more comes, then read on: closing with unread messages would take back those just sent.
  for (auto const& peer : peers_)
    if (peer->socket.get() >= 0) ::shutdown(peer->socket.get(), SHUT_WR);
  for (auto const& peer : peers_)
    if (peer->reader.joinable()) peer->reader.join();
}

void TcpMesh::meet_as_first(Rendezvous const& rendezvous, double deadline) {
  Socket const listener = listen_on(address_of(rendezvous).bytes.ss_family, rendezvous.port);
  std::vector<Address> places(size_);
  for (int come = 1; come < size_; ++come) {
    Address from;
    auto [caller, hello] = accept_hello(listener, deadline, &from);
    if (caller.get() < 0) {
      std::vector<int> missing;
      for (int r = 1; r < size_; ++r)
        if (peers_[r]->socket.get() < 0) missing.push_back(r);
      throw Error(fmt::format("rank(s) {} of {} did not come to {} port {} in time", fmt::join(missing, ", "), size_,
                              rendezvous.address, rendezvous.port));
    }
    if (hello.size != size_)
      throw InputError(
          fmt::format("environment variable WORLD_SIZE: rank {} has {}, rank 0 has {}", hello.rank, hello.size, size_));
    if (hello.rank < 1 || hello.rank >= size_ || peers_[hello.rank]->socket.get() >= 0)
      throw InputError(
          fmt::format("environment variable RANK: {} came twice or is not below WORLD_SIZE ({})", hello.rank, size_));
    std::int32_t const r = hello.rank;
    from.set_port(static_cast<std::uint16_t>(hello.port));
    places[r] = from;
    peers_[r]->socket = std::move(caller);
  }
  for (std::size_t r = 1; r < peers_.size(); ++r)
    VALIDATE(write_all(peers_[r]->socket.get(), places.data(), places.size() * sizeof(Address)),
             fmt::format("rank {} left while the ranks met", r));
}

void TcpMesh::meet_as_other(Rendezvous const& rendezvous, double deadline) {
  Address const first = address_of(rendezvous);
  Socket const listener = listen_on(first.bytes.ss_family, 0);
  Address own;
  VALIDATE(getsockname(listener.get(), own.get(), &own.length) == 0, "the port of a socket cannot be read");
  Hello const hello{Hello::word, rank_, size_, own.port()};
  peers_[0]->socket = connect_to(first, deadline, 0);
  std::vector<Address> places(size_);
  int const to_first = peers_[0]->socket.get();
  if (!write_all(to_first, &hello, sizeof hello) || !readable_before(to_first, deadline) ||
      !read_exactly(to_first, places.data(), places.size() * sizeof(Address)))
    throw Error(fmt::format("rank {} came to {} port {} and was not let in: see what rank 0 says", rank_,
                            rendezvous.address, rendezvous.port));
  for (int r = 1; r < rank_; ++r) {
    Address place = places[r];
    if (place.is_loopback()) {  // it lives with rank 0, which sees it as itself
      place = first;
      place.set_port(places[r].port());
    }
    Socket& socket = peers_[r]->socket;
    socket = connect_to(place, deadline, r);
    VALIDATE(write_all(socket.get(), &hello, sizeof hello), fmt::format("rank {} left while the ranks met", r));
  }
  for (int come = rank_ + 1; come < size_; ++come) {
    auto [caller, other] = accept_hello(listener, deadline, nullptr);
    if (caller.get() < 0 || other.rank <= rank_ || other.rank >= size_)
      throw Error(fmt::format("rank {} waited in vain for ranks above it", rank_));
    peers_[other.rank]->socket = std::move(caller);
  }
}

void TcpMesh::read_all(Peer& peer) {
  for (Header header; read_exactly(peer.socket.get(), &header, sizeof header);) {
    std::vector<std::byte> message(header.bytes);
    if (!read_exactly(peer.socket.get(), message.data(), message.size())) break;
    std::lock_guard const lock(peer.receiving);
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

void TcpMesh::send(int peer, Key const& key, void const* data, std::size_t bytes) {
  Peer& to = peer_of(peer);
  std::lock_guard const lock(to.sending);
  Header const header{key, bytes};
  VALIDATE(write_all(to.socket.get(), &header, sizeof header) && write_all(to.socket.get(), data, bytes),
           fmt::format("rank {} has left the job", peer));
}

void TcpMesh::receive(int peer, Key const& key, void* data, std::size_t bytes) {
  Peer& from = peer_of(peer);
  std::unique_lock lock(from.receiving);
  auto const found = [&] { return from.inbox.find(key); };
  from.arrived.wait(lock, [&] { return from.gone || found() != from.inbox.end(); });
  auto const waiting = found();
  VALIDATE(waiting != from.inbox.end(), fmt::format("rank {} has left the job", peer));
  std::vector<std::byte> const message = std::move(waiting->second.front());
  waiting->second.pop_front();
  if (waiting->second.empty()) from.inbox.erase(waiting);
  lock.unlock();
  VALIDATE(message.size() == bytes,
           fmt::format("message of {} bytes from rank {}, {} expected", message.size(), peer, bytes));
  if (bytes > 0) std::memcpy(data, message.data(), bytes);
}

}  // namespace shardbench
