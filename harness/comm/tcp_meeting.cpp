// Who listens says a number that is used once; who comes answers with its rank and proves the secret over that number
// and one of its own; who listens proves it back. Rank 0 then tells all where each rank listens, and higher ranks come
// to lower ones in the same way.
#include "harness/comm/tcp_meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "harness/comm/shared_secret.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::uint64_t protocol = 0x73686172646d6532;  // "shardme2"
/// A caller that has not said who it is by then is a stranger.
constexpr double seconds_to_speak = 5;
/// Callers that are heard at the same time; the one that has been silent longest makes room.
constexpr std::size_t most_callers = 256;

/// What the listening side says first.
struct Challenge {
  std::uint64_t magic = protocol;
  Nonce nonce{};
};

/// What a rank says of itself: with the port where higher ranks find it.
struct Claim {
  std::int32_t rank = 0, size = 0, port = 0, unused = 0;
};

struct Hello {
  std::uint64_t magic = protocol;
  Claim claim;
  Nonce nonce{};
  Proof proof{};
};

enum class Verdict : std::uint64_t { welcome, wrong_secret };

struct Answer {
  std::uint64_t magic = protocol;
  Verdict verdict = Verdict::welcome;
  Proof proof{};
};

template <class T>
std::string_view bytes_of_value(T const& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<char const*>(&value), sizeof value};
}

/// What both sides have said, as the proofs are over it.
std::string conversation(Nonce const& listener, Nonce const& caller, Claim const& claim) {
  return std::string(bytes_of_value(listener)) + std::string(bytes_of_value(caller)) +
         std::string(bytes_of_value(claim));
}

/// A rank that proved that it is one.
struct Guest {
  Socket socket;
  Claim claim;
  std::string said;  ///< the conversation so far
};

/// Hears all callers at once, so that silent ones make nobody wait.
class Door {
 public:
  Door(Socket listener, std::string const& secret) : listener_(std::move(listener)), secret_(secret) {}

  /// The next rank that proves itself; nothing once the deadline has passed.
  std::optional<Guest> next(double deadline) {
    while (guests_.empty()) {
      double const now = now_seconds();
      if (now >= deadline) return std::nullopt;
      std::erase_if(callers_, [&](Caller const& caller) { return caller.until <= now; });
      wait_for_words(deadline);
    }
    Guest guest = std::move(guests_.back());
    guests_.pop_back();
    return guest;
  }
  /// Callers that spoke as ranks do and did not know the secret.
  int refused() const { return refused_; }

 private:
  struct Caller {
    Socket socket;
    double until = 0;
    Nonce nonce{};  ///< ours for it
    Hello hello;
    std::size_t heard = 0;  ///< bytes of its hello
  };

  void wait_for_words(double deadline) {
    std::vector<pollfd> wanted{{listener_.get(), POLLIN, 0}};
    double until = deadline;
    for (Caller const& caller : callers_) {
      wanted.push_back({caller.socket.get(), POLLIN, 0});
      until = std::min(until, caller.until);
    }
    int const wait = static_cast<int>(std::max(0.0, until - now_seconds()) * 1000) + 1;
    if (::poll(wanted.data(), wanted.size(), wait) <= 0) return;
    for (std::size_t i = callers_.size(); i-- > 0;)
      if (wanted[i + 1].revents != 0 && !hear(callers_[i]))
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    if (wanted[0].revents != 0) open();
  }

  void open() {
    for (;;) {
      Caller caller{Socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                    now_seconds() + seconds_to_speak,
                    new_nonce(),
                    {},
                    0};
      if (caller.socket.get() < 0) return;
      Challenge const challenge{protocol, caller.nonce};
      if (!write_all(caller.socket.get(), &challenge, sizeof challenge)) continue;
      if (callers_.size() == most_callers) callers_.erase(callers_.begin());
      callers_.push_back(std::move(caller));
    }
  }

  /// Reads what has come; false when the caller is done with.
  bool hear(Caller& caller) {
    char* const at = reinterpret_cast<char*>(&caller.hello) + caller.heard;
    ssize_t const n = ::recv(caller.socket.get(), at, sizeof(Hello) - caller.heard, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    caller.heard += n;
    if (caller.heard >= sizeof caller.hello.magic && caller.hello.magic != protocol) return false;
    if (caller.heard < sizeof(Hello)) return true;
    decide(caller);
    return false;
  }

  void decide(Caller& caller) {
    Hello const& hello = caller.hello;
    std::string said = conversation(caller.nonce, hello.nonce, hello.claim);
    bool const knows = is_same(hello.proof, proof_of(secret_, "caller", said));
    refused_ += knows ? 0 : 1;
    Answer answer{protocol, knows ? Verdict::welcome : Verdict::wrong_secret, {}};
    if (knows) answer.proof = proof_of(secret_, "listener", said);
    if (!write_all(caller.socket.get(), &answer, sizeof answer) || !knows) return;
    make_lively(caller.socket);
    guests_.push_back({std::move(caller.socket), hello.claim, std::move(said)});
  }

  Socket listener_;
  std::string const& secret_;
  std::vector<Caller> callers_;  ///< the longest there first
  std::vector<Guest> guests_;
  int refused_ = 0;
};

/// What came of a try to be let in.
struct Entry {
  std::optional<Guest> inside;
  std::string refusal;  ///< why not, when the other side said so; empty when it only left
};

Entry knock(Socket socket, Claim const& claim, std::string const& secret, double deadline) {
  Challenge challenge;
  if (!read_before(socket.get(), &challenge, sizeof challenge, deadline)) return {};
  if (challenge.magic != protocol) return {std::nullopt, "another program or version listens there"};
  Hello hello{protocol, claim, new_nonce(), {}};
  std::string said = conversation(challenge.nonce, hello.nonce, claim);
  hello.proof = proof_of(secret, "caller", said);
  Answer answer;
  if (!write_all(socket.get(), &hello, sizeof hello) || !read_before(socket.get(), &answer, sizeof answer, deadline))
    return {};
  if (answer.verdict == Verdict::wrong_secret || !is_same(answer.proof, proof_of(secret, "listener", said)))
    return {std::nullopt, "SHARDBENCH_SECRET differs"};
  return {Guest{std::move(socket), claim, std::move(said)}, {}};
}

/// Comes again where the other side left without a word, as long as there is time.
Guest enter(Address const& place, int rank, Claim const& claim, std::string const& secret, double deadline,
            Socket first_try) {
  for (;;) {
    Socket socket = first_try.get() >= 0 ? std::exchange(first_try, Socket()) : connect_to(place, deadline, rank);
    Entry entry = knock(std::move(socket), claim, secret, deadline);
    if (entry.inside) return std::move(*entry.inside);
    if (!entry.refusal.empty() || now_seconds() >= deadline)
      throw Error(fmt::format("rank {} came to rank {} at {} and was not let in: {}", claim.rank, rank, place.text(),
                              entry.refusal.empty() ? "see what rank 0 says" : entry.refusal));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool names_this_machine(std::string const& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

void check_allowed(Rendezvous const& r, Address const& master) {
  if (master.is_loopback() || !r.secret.empty() || r.insecure) return;
  throw InputError(
      fmt::format("environment variable SHARDBENCH_SECRET is not set: ranks meet at {}, beyond this machine, only with "
                  "the same secret on every rank (or with --insecure-rendezvous, which lets anybody in)",
                  r.address));
}

/// The address of MASTER_ADDR alone, so that other networks of the machine do not see the job. Every interface only
/// where that cannot be: a machine's own name that means 127.0.1.1 to itself, or a service's name; then a secret
/// guards.
Address door_of(Rendezvous const& r, Address const& master) {
  bool const guarded = !r.secret.empty() || r.insecure;
  if (master.is_loopback() && !names_this_machine(r.address)) return guarded ? any_address(master) : master;
  Address probe = master;
  probe.set_port(0);
  Socket const trial(::socket(master.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool const own = ::bind(trial.get(), probe.get(), probe.length) == 0;
  return own || !guarded ? master : any_address(master);
}

std::string refusals(Door const& door) {
  return door.refused() == 0 ? ""
                             : fmt::format("; {} caller{} with another SHARDBENCH_SECRET {} refused", door.refused(),
                                           door.refused() == 1 ? "" : "s", door.refused() == 1 ? "was" : "were");
}

std::vector<int> missing(std::vector<Socket> const& ranks, int from) {
  std::vector<int> list;
  for (int r = from; r < std::ssize(ranks); ++r)
    if (ranks[r].get() < 0) list.push_back(r);
  return list;
}

void check_claim(Claim const& claim, std::vector<Socket> const& ranks) {
  int const size = static_cast<int>(ranks.size());
  if (claim.size != size)
    throw InputError(
        fmt::format("environment variable WORLD_SIZE: rank {} has {}, rank 0 has {}", claim.rank, claim.size, size));
  if (claim.rank < 1 || claim.rank >= size || ranks[claim.rank].get() >= 0)
    throw InputError(
        fmt::format("environment variable RANK: {} came twice or is not below WORLD_SIZE ({})", claim.rank, size));
}

std::vector<Socket> meet_as_first(Rendezvous const& r, double deadline) {
  Address const master = resolve(r.address, r.port);
  check_allowed(r, master);
  Door door(listen_at(door_of(r, master)), r.secret);
  std::vector<Socket> ranks(r.size);
  std::vector<Address> places(r.size);
  std::vector<std::string> said(r.size);
  for (int come = 1; come < r.size; ++come) {
    std::optional<Guest> guest = door.next(deadline);
    if (!guest)
      throw Error(fmt::format("rank(s) {} of {} did not come to {} port {} in time{}",
                              fmt::join(missing(ranks, 1), ", "), r.size, r.address, r.port, refusals(door)));
    check_claim(guest->claim, ranks);
    int const rank = guest->claim.rank;
    places[rank] = peer_address(guest->socket);
    places[rank].set_port(static_cast<std::uint16_t>(guest->claim.port));
    said[rank] = std::move(guest->said);
    ranks[rank] = std::move(guest->socket);
  }
  std::string const list(reinterpret_cast<char const*>(places.data()), places.size() * sizeof(Address));
  for (int rank = 1; rank < r.size; ++rank) {
    Proof const proof = proof_of(r.secret, "places", said[rank] + list);
    VALIDATE(
        write_all(ranks[rank].get(), list.data(), list.size()) && write_all(ranks[rank].get(), &proof, sizeof proof),
        fmt::format("rank {} left while the ranks met", rank));
  }
  return ranks;
}

/// Where the ranks listen, as rank 0 saw them.
std::vector<Address> read_places(Rendezvous const& r, Guest const& first, double deadline) {
  std::vector<Address> places(r.size);
  Proof proof;
  if (!read_before(first.socket.get(), places.data(), places.size() * sizeof(Address), deadline) ||
      !read_before(first.socket.get(), &proof, sizeof proof, deadline))
    throw Error(
        fmt::format("rank {} came to {} port {} and was not let in: see what rank 0 says", r.rank, r.address, r.port));
  std::string const list(reinterpret_cast<char const*>(places.data()), places.size() * sizeof(Address));
  VALIDATE(is_same(proof, proof_of(r.secret, "places", first.said + list)),
           "rank 0's list of ranks was changed on its way");
  return places;
}

std::vector<Socket> meet_as_other(Rendezvous const& r, double deadline) {
  Address const master = resolve(r.address, r.port);
  check_allowed(r, master);
  Socket to_first = connect_to(master, deadline, 0);
  Address own = own_address(to_first);  // the interface on which rank 0 sees this rank
  own.set_port(0);
  Socket listener = listen_at(own);
  Claim const claim{r.rank, r.size, own_address(listener).port(), 0};
  Guest first = enter(master, 0, claim, r.secret, deadline, std::move(to_first));
  std::vector<Address> const places = read_places(r, first, deadline);
  std::vector<Socket> ranks(r.size);
  ranks[0] = std::move(first.socket);
  for (int rank = 1; rank < r.rank; ++rank) {
    Address place = places[rank];
    if (place.is_loopback()) {  // it lives with rank 0, which sees it as itself
      place = master;
      place.set_port(places[rank].port());
    }
    ranks[rank] = enter(place, rank, claim, r.secret, deadline, Socket()).socket;
  }
  Door door(std::move(listener), r.secret);
  for (int come = r.rank + 1; come < r.size; ++come) {
    std::optional<Guest> guest = door.next(deadline);
    if (!guest || guest->claim.rank <= r.rank || guest->claim.rank >= r.size || ranks[guest->claim.rank].get() >= 0)
      throw Error(fmt::format("rank {} waited in vain for rank(s) {}{}", r.rank,
                              fmt::join(missing(ranks, r.rank + 1), ", "), refusals(door)));
    ranks[guest->claim.rank] = std::move(guest->socket);
  }
  return ranks;
}

}  // namespace

std::vector<Socket> meet(Rendezvous const& rendezvous, double deadline) {
  if (rendezvous.size == 1) return std::vector<Socket>(1);
  return rendezvous.rank == 0 ? meet_as_first(rendezvous, deadline) : meet_as_other(rendezvous, deadline);
}

}  // namespace shardbench
