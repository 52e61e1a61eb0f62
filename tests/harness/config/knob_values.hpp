#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "harness/config/knob.hpp"
#include "kernels/core/error.hpp"

namespace shardbench::test {

/// Texts that a knob takes and that are not its default: a new knob is tried with them without being named in a test.
inline std::vector<std::string> other_values(Knob const& knob) {
  std::vector<std::string> tried{"true", "2",   "3",   "4",           "1",        "64",
                                 "448",  "0.5", "0.1", "smollm-360m", "cut.yaml", "Et*12L"};
  for (std::size_t start = 0; start <= knob.allowed.size();) {
    std::size_t const end = std::min(knob.allowed.find('|', start), knob.allowed.size());
    tried.push_back(knob.allowed.substr(start, end - start));
    start = end + 1;
  }
  Experiment const defaults;
  std::vector<std::string> values;
  for (std::string const& text : tried) {
    Experiment e;
    try {
      knob.set(e, text);
    } catch (InputError const&) {
      continue;
    }
    if (knob.get(e) != knob.get(defaults)) values.push_back(text);
  }
  return values;
}

namespace detail {
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, std::size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { T{(static_cast<void>(i), Anything{})...}; };
}
}  // namespace detail

/// How many members a plain struct has.
template <class T, std::size_t n = 1>
constexpr std::size_t member_count() {
  if constexpr (detail::takes<T>(std::make_index_sequence<n>()))
    return member_count<T, n + 1>();
  else
    return n - 1;
}

}  // namespace shardbench::test
