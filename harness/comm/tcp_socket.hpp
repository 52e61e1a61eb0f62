#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardbench {

/// Seconds of a clock that only goes forward.
double now_seconds();

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

/// An address of either family.
struct Address {
  sockaddr_storage bytes{};
  socklen_t length = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  sockaddr const* get() const { return reinterpret_cast<sockaddr const*>(&bytes); }
  bool is_loopback() const;
  void set_port(std::uint16_t port);
  std::uint16_t port() const;
  /// "10.0.0.1"; with brackets and a port as messages want it: "[::1]:29500".
  std::string text() const;
};

/// The address that a host name or an IP stands for here. Throws InputError naming MASTER_ADDR.
Address resolve(std::string const& host, int port);
/// Of this end of a connection or of a listening socket; of the other end.
Address own_address(Socket const& socket);
Address peer_address(Socket const& socket);
/// Every interface, in the family of `like`.
Address any_address(Address const& like);

/// Listens at the address; port 0 takes a free one. Throws InputError naming MASTER_PORT.
Socket listen_at(Address const& address);
/// Tries until the deadline (now_seconds()): the other side may not listen yet. Throws Error naming the rank.
Socket connect_to(Address const& address, double deadline, int rank);

/// Small messages leave at once, and a dead machine at the other end is noticed within a minute.
void make_lively(Socket const& socket);

/// False when the other side is gone.
bool write_all(int socket, void const* data, std::size_t bytes);
bool read_exactly(int socket, void* data, std::size_t bytes);
/// Reads all bytes before the deadline (now_seconds()), whatever pieces they come in; false when they do not come.
bool read_before(int socket, void* data, std::size_t bytes, double deadline);

}  // namespace shardbench
