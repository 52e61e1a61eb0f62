// Who is let into a job without MPI, and that nobody else hinders it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "harness/comm/shared_secret.hpp"
#include "harness/comm/tcp_meeting.hpp"
#include "harness/comm/tcp_mesh.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

int free_port() {
  Address here = resolve("127.0.0.1", 0);
  return own_address(listen_at(here)).port();
}

/// Meets as `rank` and leaves; the error's text, empty when all went well.
std::string outcome(Rendezvous const& r, double seconds) {
  try {
    TcpMesh const mesh(r, seconds, 10);
  } catch (Error const& error) {
    return error.what();
  }
  return {};
}

std::future<std::string> in_background(Rendezvous const& r, double seconds = 10) {
  return std::async(std::launch::async, [=] { return outcome(r, seconds); });
}

/// A connection that says `words` and stays.
Socket stranger(std::string const& host, int port, std::string const& words) {
  Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  Address const place = resolve(host, port);
  for (int tries = 0; ::connect(socket.get(), place.get(), place.length) != 0; ++tries) {
    if (tries == 100) return Socket();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  write_all(socket.get(), words.data(), words.size());
  return socket;
}

// HMAC-SHA256 of Python's hmac module over "6:caller" and the words of RFC 4231's second case.
TEST(SharedSecret, ProofIsTheStandardsHmac) {
  Proof const proof = proof_of("Jefe", "caller", "what do ya want for nothing?");
  std::string text;
  for (std::byte const b : proof) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  EXPECT_EQ(text, "7aa98816e257023573eab1c2929e4b2681a9c2e6b426a0cf33ff5c52480774c8");
  EXPECT_TRUE(is_same(proof, proof_of("Jefe", "caller", "what do ya want for nothing?")));
  EXPECT_FALSE(is_same(proof, proof_of("Jefd", "caller", "what do ya want for nothing?")));
  EXPECT_NE(new_nonce(), new_nonce());
}

TEST(Door, RanksWithTheSameSecretMeet) {
  for (char const* secret : {"", "correct horse"}) {
    int const port = free_port();
    std::vector<std::future<std::string>> ranks;
    for (int r = 3; r >= 0; --r) ranks.push_back(in_background({r, 4, "127.0.0.1", port, secret}));
    for (auto& rank : ranks) EXPECT_EQ(rank.get(), "");
  }
}

TEST(Door, AnotherSecretIsRefusedAndNamed) {
  int const port = free_port();
  auto first = in_background({0, 2, "127.0.0.1", port, "correct horse"}, 1);
  EXPECT_NE(outcome({1, 2, "127.0.0.1", port, "battery"}, 5).find("SHARDBENCH_SECRET differs"), std::string::npos);
  std::string const told = first.get();
  EXPECT_NE(told.find("rank(s) 1 of 2 did not come"), std::string::npos) << told;
  EXPECT_NE(told.find("1 caller with another SHARDBENCH_SECRET was refused"), std::string::npos) << told;
}

// A master that does not know the secret is not believed either.
TEST(Door, AFalseMasterIsNotBelieved) {
  int const port = free_port();
  auto first = in_background({0, 2, "127.0.0.1", port, "guess"}, 1);
  EXPECT_NE(outcome({1, 2, "127.0.0.1", port, "correct horse"}, 5).find("SHARDBENCH_SECRET differs"),
            std::string::npos);
  first.get();
}

TEST(Door, BeyondThisMachineASecretIsNeeded) {
  for (int rank : {0, 1}) {
    std::string const told = outcome({rank, 2, "192.0.2.1", 29500}, 0.2);
    EXPECT_NE(told.find("SHARDBENCH_SECRET is not set"), std::string::npos) << told;
    EXPECT_NE(told.find("--insecure-rendezvous"), std::string::npos) << told;
  }
  // With one, or told to do without, the address itself is tried.
  EXPECT_EQ(outcome({1, 2, "192.0.2.1", 29500, "secret"}, 0.2).find("SHARDBENCH_SECRET is not"), std::string::npos);
  EXPECT_EQ(outcome({1, 2, "192.0.2.1", 29500, "", true}, 0.2).find("SHARDBENCH_SECRET is not"), std::string::npos);
}

TEST(Door, ListensAtTheMastersAddressOnly) {
  int const port = free_port();
  auto first = in_background({0, 2, "127.0.0.1", port}, 1);
  EXPECT_GE(stranger("127.0.0.1", port, "").get(), 0);
  Socket const other(::socket(AF_INET, SOCK_STREAM, 0));
  Address const elsewhere = resolve("127.0.0.2", port);
  EXPECT_NE(::connect(other.get(), elsewhere.get(), elsewhere.length), 0);
  first.get();
}

// Two hundred silent connections, a web browser and ten thousand random byte strings: no crash, nobody let in, and the
// ranks meet at once.
TEST(Door, StrangersMakeNobodyWait) {
  int const port = free_port();
  auto first = in_background({0, 2, "127.0.0.1", port, "correct horse"}, 60);
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(stranger("127.0.0.1", port, i % 2 == 0 ? "" : "2"));
  silent.push_back(stranger("127.0.0.1", port, "GET / HTTP/1.1\r\n\r\n"));
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    std::string words(random() % 200, '\0');
    for (char& c : words) c = static_cast<char>(random());
    // Some begin as ranks do.
    if (i % 3 == 0) words = "2emdrahs" + words;
    stranger("127.0.0.1", port, words);
  }
  double const start = now_seconds();
  EXPECT_EQ(outcome({1, 2, "127.0.0.1", port, "correct horse"}, 10), "");
  EXPECT_EQ(first.get(), "");
  EXPECT_LT(now_seconds() - start, 5) << "one stranger after the other would take 1000 s";
}

TEST(Mesh, ARankThatHangsIsNamed) {
  int const port = free_port();
  std::promise<void> done;
  auto other = std::async(std::launch::async, [&] {
    TcpMesh const mesh({1, 2, "127.0.0.1", port}, 10, 10);
    done.get_future().wait();
  });
  {
    TcpMesh mesh({0, 2, "127.0.0.1", port}, 10, 0.2);
    float value = 0;
    try {
      mesh.receive(1, {}, &value, sizeof value);
      ADD_FAILURE() << "a message that nobody sent came";
    } catch (Error const& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 has sent nothing for 0.2 s"), std::string::npos) << error.what();
    }
  }  // and does not wait for it at the end
  done.set_value();
  other.get();
}

// An announced length of 2^62 takes no memory and ends the connection.
TEST(Mesh, ALengthThatIsNoneIsRefused) {
  int const port = free_port();
  auto other = std::async(std::launch::async, [&] {
    std::vector<Socket> ranks = meet({1, 2, "127.0.0.1", port}, now_seconds() + 10);
    struct {
      TcpMesh::Key key;
      std::uint64_t bytes = std::uint64_t{1} << 62;
    } header;
    write_all(ranks[0].get(), &header, sizeof header);
    char byte = 0;
    read_before(ranks[0].get(), &byte, 1, now_seconds() + 10);
  });
  {
    TcpMesh mesh({0, 2, "127.0.0.1", port}, 10, 10);
    float value = 0;
    EXPECT_THROW(mesh.receive(1, {}, &value, sizeof value), Error);
  }
  other.get();
}

}  // namespace
}  // namespace shardbench
