#pragma once
// Who may take part in a job without MPI: whoever knows SHARDBENCH_SECRET. It never crosses the network; each side
// proves that it knows it.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardbench {

/// Bytes that are used once, so that an answer overheard is worth nothing later.
using Nonce = std::array<std::byte, 32>;
/// From the kernel's random numbers.
Nonce new_nonce();

/// HMAC-SHA256.
using Proof = std::array<std::byte, 32>;
/// The proof that whoever says `words` about the bytes of a conversation knows the secret.
Proof proof_of(std::string_view secret, std::string_view words, std::string_view conversation);
/// Compares in a time that tells nothing.
bool is_same(Proof const& a, Proof const& b);

}  // namespace shardbench
