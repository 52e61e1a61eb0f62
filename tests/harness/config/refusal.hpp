#pragma once
// What bad input is refused with.
#include <string>

#include "kernels/core/error.hpp"

namespace shardbench::test {

inline bool contains(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// The message of the InputError that an action throws; empty when it throws none.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (InputError const& error) {
    return error.what();
  }
  return "";
}

}  // namespace shardbench::test
