#pragma once
// How rows and columns of a section lie in a stored tensor.
#include <numeric>
#include <utility>

#include "harness/checkpoint/stored_part.hpp"

namespace shardbench::part_layout {

using Numbers = std::vector<std::int64_t>;

/// begin, begin + step, ...
inline Numbers series(std::int64_t count, std::int64_t step = 1, std::int64_t begin = 0) {
  Numbers numbers(count);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = begin + i * step;
  return numbers;
}

/// A section that is the whole of a tensor [rows, cols].
inline StoredPart matrix(std::string name, std::int64_t rows, std::int64_t cols) {
  return {std::move(name), {rows, cols}, series(rows, cols), series(cols)};
}

inline StoredPart vector(std::string name, std::int64_t size) { return {std::move(name), {size}, series(size), {0}}; }

/// Rows `from` of a tensor of `all` rows: a matrix [all, cols], or a vector [all] where `bias`.
inline StoredPart rows_of(std::string name, Numbers from, std::int64_t all, std::int64_t cols, bool bias) {
  if (bias) return {std::move(name), {all}, std::move(from), {0}};
  for (std::int64_t& row : from) row *= cols;
  return {std::move(name), {all, cols}, std::move(from), series(cols)};
}

/// The same of a tensor that is stored as [cols, all], as GPT-2's Conv1D is.
inline StoredPart columns_of(std::string name, Numbers from, std::int64_t all, std::int64_t cols, bool bias) {
  if (bias) return {std::move(name), {all}, std::move(from), {0}};
  return {std::move(name), {cols, all}, std::move(from), series(cols, all)};
}

/// Rows of heads that lie `stride` apart from row `begin` on.
inline Numbers heads(std::int64_t count, std::int64_t dim, std::int64_t stride, std::int64_t begin) {
  Numbers rows;
  for (std::int64_t h = 0; h < count; ++h)
    for (std::int64_t d = 0; d < dim; ++d) rows.push_back(begin + h * stride + d);
  return rows;
}

/// Row i of a rotary part of `dim` whose pairs lie side by side where it is stored; here halves are paired.
inline std::int64_t interleaved(std::int64_t i, std::int64_t dim) {
  return i < dim / 2 ? 2 * i : 2 * (i - dim / 2) + 1;
}

}  // namespace shardbench::part_layout
