#include "harness/comm/tcp_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

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

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  VALIDATE(socket.get() >= 0, fmt::format("no socket is to be had ({})", std::strerror(errno)));
  return socket;
}

/// Whether the socket is ready for `events` before the deadline.
bool ready_before(int socket, short events, double deadline) {
  pollfd wanted{socket, events, 0};
  for (;;) {
    int const wait = static_cast<int>(std::max(0.0, deadline - now_seconds()) * 1000);
    int const ready = ::poll(&wanted, 1, wait);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

/// Connects within the deadline; errno says why not. A machine that never answers is not waited for longer.
bool connect_before(Socket const& socket, Address const& address, double deadline) {
  int const flags = fcntl(socket.get(), F_GETFL);
  fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  int code = ::connect(socket.get(), address.get(), address.length) == 0 ? 0 : errno;
  if (code == EINPROGRESS) {
    socklen_t length = sizeof code;
    code = ETIMEDOUT;
    if (ready_before(socket.get(), POLLOUT, deadline)) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  }
  fcntl(socket.get(), F_SETFL, flags);
  errno = code;
  return code == 0;
}

template <class Ask>
Address asked(Ask ask, Socket const& socket) {
  Address address;
  VALIDATE(ask(socket.get(), address.get(), &address.length) == 0, "the address of a socket cannot be read");
  return address;
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

bool Address::is_loopback() const {
  if (bytes.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<sockaddr_in const*>(&bytes)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<sockaddr_in6 const*>(&bytes)->sin6_addr) != 0;
}

// Where both families keep their port.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
void Address::set_port(std::uint16_t port) { reinterpret_cast<sockaddr_in*>(&bytes)->sin_port = htons(port); }
std::uint16_t Address::port() const { return ntohs(reinterpret_cast<sockaddr_in const*>(&bytes)->sin_port); }

std::string Address::text() const {
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(get(), length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  return fmt::format("[{}]:{}", host.data(), port());
}

Address resolve(std::string const& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    throw InputError(fmt::format("environment variable MASTER_ADDR is '{}': {}; a host name or an IP is allowed", host,
                                 gai_strerror(code)));
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Address own_address(Socket const& socket) { return asked(getsockname, socket); }
Address peer_address(Socket const& socket) { return asked(getpeername, socket); }

Address any_address(Address const& like) {
  Address any;  // all zero but for family and port: any interface, in both families
  any.bytes.ss_family = like.bytes.ss_family;
  any.length = like.bytes.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  any.set_port(like.port());
  return any;
}

Socket listen_at(Address const& address) {
  Socket socket = make_socket(address.bytes.ss_family);
  int const on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    throw InputError(fmt::format("environment variable MASTER_PORT: rank 0 cannot listen on port {} ({})",
                                 address.port(), std::strerror(errno)));
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  return socket;
}

Socket connect_to(Address const& address, double deadline, int rank) {
  for (;;) {
    Socket socket = make_socket(address.bytes.ss_family);
    if (connect_before(socket, address, deadline)) {
      make_lively(socket);
      return socket;
    }
    if (now_seconds() >= deadline)
      throw Error(
          fmt::format("rank {} is not to be reached at port {} ({})", rank, address.port(), std::strerror(errno)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void make_lively(Socket const& socket) {
  auto const set = [&](int level, int name, int value) { setsockopt(socket.get(), level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20), set(IPPROTO_TCP, TCP_KEEPINTVL, 10), set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60000);
}

bool write_all(int socket, void const* data, std::size_t bytes) {
  return transfer_all(::send, socket, static_cast<char const*>(data), bytes, MSG_NOSIGNAL);
}

bool read_exactly(int socket, void* data, std::size_t bytes) {
  return transfer_all(::recv, socket, static_cast<char*>(data), bytes, 0);
}

bool read_before(int socket, void* data, std::size_t bytes, double deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!ready_before(socket, POLLIN, deadline)) return false;
    ssize_t const n = ::recv(socket, at, bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    at += n, bytes -= n;
  }
  return true;
}

}  // namespace shardbench
