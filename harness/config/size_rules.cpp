#include "harness/config/size_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardbench {

std::string fp8_problem(std::int64_t rows, std::int64_t cols) {
  std::string problem;
  if (rows % 8 != 0) problem = fmt::format("{} rows are not a multiple of 8; pad to {}", rows, round_up(rows, 8));
  if (cols % 16 != 0)
    problem += fmt::format("{}{} columns are not a multiple of 16; pad to {}", problem.empty() ? "" : ", ", cols,
                           round_up(cols, 16));
  return problem;
}

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor) {
  double const load = static_cast<double>(tokens) * static_cast<double>(top_k) / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::min(std::ceil(factor * load), static_cast<double>(tokens)));
}

}  // namespace shardbench
