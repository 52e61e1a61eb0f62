#include "harness/config/cut.hpp"

#include <fmt/format.h>

#include <array>

#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

template <class Enum, std::size_t n>
std::string_view name_of(Enum value, std::array<std::string_view, n> const& names) {
  static_assert(n == static_cast<std::size_t>(Enum::size_));
  return names.at(static_cast<std::size_t>(value));
}

}  // namespace

std::string_view to_string(Recompute kind) {
  return name_of(kind, std::array<std::string_view, 3>{"none", "selective", "full"});
}

std::string_view to_string(ZeroKeep keep) {
  return name_of(keep, std::array<std::string_view, 3>{"none", "weights", "all"});
}

std::string_view to_string(CpMethod method) {
  return name_of(method, std::array<std::string_view, 3>{"ring", "all-gather", "ulysses"});
}

std::string_view to_string(TpOverlap overlap) {
  return name_of(overlap, std::array<std::string_view, 2>{"none", "chunked"});
}

std::int64_t chunks_per_rank(Cut const& cut) { return rules_of(cut.schedule).chunks_a_stage(cut.vpp); }

std::int64_t model_chunks(Cut const& cut) { return cut.pp * rules_of(cut.schedule).pieces_a_stage(cut.vpp); }

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisible_by) {
  std::int64_t const unit = divisible_by * tp;
  return (vocab + unit - 1) / unit * unit;
}

std::vector<std::int64_t> split_layers(std::int64_t layers, std::int64_t stages, bool embedding_and_head_as_layers) {
  bool const extra = embedding_and_head_as_layers && stages > 1;
  std::int64_t const total = layers + (extra ? 2 : 0);
  if (stages < 1 || layers < 1 || stages > layers)
    throw IllegalConfig(fmt::format("pp: {} stages for {} layers; from 1 to {} are legal", stages, layers, layers));
  auto const count = static_cast<std::size_t>(stages);
  std::vector<std::int64_t> result(count, total / stages);
  // From the last but one backwards: the last stage holds the head, the first the embedding.
  for (std::size_t left = static_cast<std::size_t>(total % stages); left > 0; --left) ++result[count - 1 - left];
  if (extra) {
    --result.front();
    --result.back();
  }
  return result;
}

}  // namespace shardbench
