#include "harness/comm/shared_secret.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "kernels/core/error.hpp"

namespace shardbench {

Nonce new_nonce() {
  Nonce nonce;
  VALIDATE(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()),
           "no random numbers are to be had");
  return nonce;
}

Proof proof_of(std::string_view secret, std::string_view words, std::string_view conversation) {
  // The length apart keeps "ab" + "c" from meaning "a" + "bc".
  std::string const text = std::to_string(words.size()) + ':' + std::string(words) + std::string(conversation);
  Proof proof;
  unsigned int length = 0;
  auto const* const made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                reinterpret_cast<unsigned char const*>(text.data()), text.size(),
                                reinterpret_cast<unsigned char*>(proof.data()), &length);
  VALIDATE(made && length == proof.size(), "HMAC-SHA256 is not to be had");
  return proof;
}

bool is_same(Proof const& a, Proof const& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace shardbench
