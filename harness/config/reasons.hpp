#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace shardbench {

/// What is refused or noted about an experiment: a line each, of the rule, the value and the legal values.
using Reasons = std::vector<std::string>;

template <class... Args>
void add(Reasons& reasons, fmt::format_string<Args...> words, Args&&... args) {
  reasons.push_back(fmt::format(words, std::forward<Args>(args)...));
}

}  // namespace shardbench
