#pragma once
// What every fuzzer shares: untrusted text is read, or refused with an InputError of one line; anything else is a bug.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "kernels/core/error.hpp"

namespace shardbench::fuzz {

inline void require(bool holds, char const* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << '\n';
  std::abort();
}

/// Calls `read(text)`; a refusal must be an InputError whose message is one non-empty line.
template <typename Read>
void try_read(std::uint8_t const* data, std::size_t size, Read read) {
  std::string_view const text(size == 0 ? "" : reinterpret_cast<char const*>(data), size);
  try {
    read(text);
  } catch (InputError const& error) {
    std::string_view const message = error.what();
    require(!message.empty(), "a refusal has a message");
    require(message.find('\n') == std::string_view::npos, "a refusal is one line");
  }
}

}  // namespace shardbench::fuzz

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
