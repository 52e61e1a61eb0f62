// A switch between network namespaces: each gets a TUN device, whose packets leave and arrive at a given rate and
// travel for a given time. User space, so that it works where the kernel has no netem. scripts/netns_cluster.sh starts
// it.
//   netns_relay RATE_BITS_PER_S DELAY_US MTU NAMESPACE...     node i (from 0) has the address 10.77.0.(i+1)
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Nanoseconds = std::int64_t;
constexpr std::size_t most_bytes_under_way = std::size_t{64} << 20;
constexpr std::size_t largest_packet = 65536;
constexpr int reads_in_a_row = 16;
constexpr std::size_t destination_offset = 16;  // of an IPv4 header

std::string last_error() { return std::strerror(errno); }

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double number_of(std::string const& text, char const* what, double least, double most) {
  double value = 0;
  auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() || !(value >= least && value <= most))
    throw InputError(fmt::format("netns_relay: {} '{}' is not a number from {:g} to {:g}", what, text, least, most));
  return value;
}

/// An open file that is closed with its owner.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

void configure(std::string const& command) {
  VALIDATE(std::system(command.c_str()) == 0, fmt::format("'{}' failed", command));
}

/// A TUN device inside a namespace; the process itself stays where it is.
File make_tun(std::string const& name_space, std::size_t node, int mtu) {
  File const home(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  File const there(open(fmt::format("/run/netns/{}", name_space).c_str(), O_RDONLY | O_CLOEXEC));
  VALIDATE(home.get() >= 0 && there.get() >= 0,
           fmt::format("namespace {} cannot be opened ({})", name_space, last_error()));
  VALIDATE(setns(there.get(), CLONE_NEWNET) == 0,
           fmt::format("namespace {} cannot be entered ({})", name_space, last_error()));
  File tun(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  VALIDATE(tun.get() >= 0, fmt::format("/dev/net/tun cannot be opened ({})", last_error()));
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, "link0", IFNAMSIZ - 1);
  VALIDATE(ioctl(tun.get(), TUNSETIFF, &request) == 0,
           fmt::format("no TUN device in {} ({})", name_space, last_error()));
  configure(fmt::format("ip addr add 10.77.0.{}/24 dev link0", node + 1));
  configure(fmt::format("ip link set link0 mtu {} txqueuelen 2000 up", mtu));
  VALIDATE(setns(home.get(), CLONE_NEWNET) == 0,
           fmt::format("cannot come back from {} ({})", name_space, last_error()));
  return tun;
}

struct Packet {
  Nanoseconds due = 0;
  std::size_t to = 0;
  std::vector<char> bytes;
  bool operator>(Packet const& other) const { return due > other.due; }
};

class Switch {
 public:
  Switch(std::vector<File> ports, double rate_bits, Nanoseconds delay)
      : ports_(std::move(ports)),
        ns_per_byte_(8e9 / rate_bits),
        delay_(delay),
        out_free_(ports_.size()),
        in_free_(ports_.size()) {}

  [[noreturn]] void run() {
    std::vector<pollfd> waiting;
    for (File const& port : ports_) waiting.push_back({port.get(), POLLIN, 0});
    for (;;) {
      deliver();
      bool read_any = false;
      if (bytes_under_way_ < most_bytes_under_way)
        for (std::size_t from = 0; from < ports_.size(); ++from) read_any = accept(from) || read_any;
      if (read_any) continue;
      wait(waiting);
    }
  }

 private:
  void deliver() {
    while (!packets_.empty() && packets_.top().due <= now()) {
      Packet const& packet = packets_.top();
      // A receiver whose queue is full loses the packet, as on a real port.
      static_cast<void>(!write(ports_[packet.to].get(), packet.bytes.data(), packet.bytes.size()));
      bytes_under_way_ -= packet.bytes.size();
      packets_.pop();
    }
  }

  bool accept(std::size_t from) {
    bool any = false;
    for (int i = 0; i < reads_in_a_row; ++i) {
      auto const size = read(ports_[from].get(), buffer_.data(), buffer_.size());
      if (size <= 0) break;
      any = true;
      route(from, size);
    }
    return any;
  }

  /// Cut-through: the packet takes its sender's and its receiver's line at the rate, one after the other only when they
  /// are busy.
  void route(std::size_t from, std::size_t size) {
    if (size <= destination_offset + 3 || (static_cast<unsigned char>(buffer_[0]) >> 4) != 4) return;
    std::size_t const node = static_cast<unsigned char>(buffer_[destination_offset + 3]) - 1;
    if (node >= ports_.size() || node == from) return;
    auto const time = static_cast<Nanoseconds>(ns_per_byte_ * static_cast<double>(size));
    out_free_[from] = std::max(now(), out_free_[from]) + time;
    in_free_[node] = std::max(out_free_[from], in_free_[node] + time);
    packets_.push(
        {in_free_[node] + delay_, node, {buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size)}});
    bytes_under_way_ += size;
  }

  void wait(std::vector<pollfd>& waiting) {
    if (packets_.empty()) {
      ppoll(waiting.data(), waiting.size(), nullptr, nullptr);
      return;
    }
    Nanoseconds const left = packets_.top().due - now();
    if (left <= 0) return;
    timespec const timeout{left / 1'000'000'000, left % 1'000'000'000};
    ppoll(waiting.data(), waiting.size(), &timeout, nullptr);
  }

  std::vector<File> ports_;
  double ns_per_byte_;
  Nanoseconds delay_;
  std::vector<Nanoseconds> out_free_, in_free_;
  std::priority_queue<Packet, std::vector<Packet>, std::greater<>> packets_;
  std::size_t bytes_under_way_ = 0;
  std::vector<char> buffer_ = std::vector<char>(largest_packet);
};

int relay(std::vector<std::string> const& words) {
  if (words.size() < 5 || words.size() > 3 + 200)
    throw InputError("usage: netns_relay RATE_BITS_PER_S DELAY_US MTU NAMESPACE NAMESPACE...");
  double const rate = number_of(words[0], "rate", 1e3, 1e12), delay_us = number_of(words[1], "delay", 0, 1e7);
  int const mtu = static_cast<int>(number_of(words[2], "MTU", 576, 65535));
  std::vector<File> ports;
  for (std::size_t i = 3; i < words.size(); ++i) ports.push_back(make_tun(words[i], i - 3, mtu));
  // On a machine that is busy with the ranks themselves the link must still be on time; without the right to, it is
  // late.
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param priority{};
  priority.sched_priority = 50;
  static_cast<void>(sched_setscheduler(0, SCHED_FIFO, &priority));
  fmt::print("up\n");
  std::fflush(stdout);
  Switch(std::move(ports), rate, static_cast<Nanoseconds>(delay_us * 1e3)).run();
}

}  // namespace
}  // namespace shardbench

int main(int argc, char** argv) {
  try {
    return shardbench::relay({argv + 1, argv + argc});
  } catch (shardbench::InputError const& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (std::exception const& error) {
    fmt::print(stderr, "netns_relay: {}\n", error.what());
    return 1;
  }
}
