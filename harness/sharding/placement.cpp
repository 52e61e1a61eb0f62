#include "harness/sharding/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Reads "name(a,b)" into its words; empty when the text has another shape.
std::vector<std::string> words_of(std::string const& text) {
  auto const open = text.find('(');
  if (open == text.npos) return {text};
  if (text.empty() || text.back() != ')') return {};
  std::vector<std::string> words{text.substr(0, open)};
  for (std::string& word : split_at(text.substr(open + 1, text.size() - open - 2), ','))
    words.push_back(std::move(word));
  return words;
}

bool read_integer(std::string const& text, std::int64_t& value) {
  value = whole_integer(text).value_or(-1);
  return value >= 0;
}

}  // namespace

std::string to_string(Placement const& placement) {
  if (auto const* shard = std::get_if<Shard>(&placement)) {
    std::string text = fmt::format("shard({}", shard->dim);
    if (shard->layout == ShardLayout::zigzag) text += ",zigzag";
    if (shard->replicas > 1) text += fmt::format(",x{}", shard->replicas);
    return text + ')';
  }
  if (auto const* partial = std::get_if<Partial>(&placement))
    return partial->op == PartialOp::sum ? "partial(sum)" : "partial(max)";
  if (auto const* own = std::get_if<Private>(&placement)) return fmt::format("private({})", own->synced);
  return "replicate";
}

Placement parse_placement(std::string const& text) {
  auto const words = words_of(text);
  auto const fail = [&]() -> Placement {
    throw InputError(
        fmt::format("placement {} is not one of replicate, shard(DIM), shard(sequence), shard(DIM,zigzag), "
                    "partial(sum), partial(max), private(N)",
                    in_quotes(text)));
  };
  if (words.empty()) return fail();
  std::int64_t number = 0;
  if (text == "replicate") return Replicate{};
  if (text == "partial" || text == "partial(sum)") return Partial{PartialOp::sum};
  if (text == "partial(max)") return Partial{PartialOp::max};
  if (words[0] == "private" && words.size() == 2 && read_integer(words[1], number)) return Private{number};
  if (words[0] != "shard" || words.size() < 2) return fail();
  Shard shard;
  if (words[1] == "sequence")
    number = 0;
  else if (!read_integer(words[1], number) || number > 7)
    return fail();
  shard.dim = static_cast<int>(number);
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "zigzag")
      shard.layout = ShardLayout::zigzag;
    else if (words[i].size() > 1 && words[i][0] == 'x' && read_integer(words[i].substr(1), number) && number >= 1)
      shard.replicas = number;
    else
      return fail();
  }
  return shard;
}

std::string_view to_string(Transition transition) {
  constexpr std::string_view names[] = {"none",       "all_reduce",  "reduce_scatter", "all_gather",
                                        "all_to_all", "local_slice", "partial_sync",   "private_copy"};
  return names[static_cast<int>(transition)];
}

Transition transition_between(Placement const& from, Placement const& to) {
  if (from == to) return Transition::none;
  auto const need = [&](bool has_meaning, std::string_view why_not) {
    VALIDATE(has_meaning, fmt::format("cannot redistribute {} to {} ({})", to_string(from), to_string(to), why_not));
  };
  need(!is_partial(to), "a partial sum comes from an operation only");
  need(!is_private(from), "private values have no global tensor");
  if (is_private(to)) {
    need(!is_shard(from), "only a partial sum can be synchronised in part, only a whole tensor copied");
    return is_partial(from) ? Transition::partial_sync : Transition::private_copy;
  }
  if (is_partial(from)) return is_shard(to) ? Transition::reduce_scatter : Transition::all_reduce;
  if (is_shard(from)) return is_shard(to) ? Transition::all_to_all : Transition::all_gather;
  return Transition::local_slice;
}

Placement gradient_placement(Placement const& forward) {
  if (is_partial(forward)) return Replicate{};
  if (is_private(forward)) return Partial{};
  return forward;
}

std::vector<RedistributeStep> redistribute(std::vector<Placement> const& from, std::vector<Placement> const& to) {
  VALIDATE(from.size() == to.size(),
           fmt::format("redistribute: {} placements given, {} wanted (one per mesh axis)", from.size(), to.size()));
  std::vector<Placement> now = from;
  std::vector<RedistributeStep> steps;
  auto const take = [&](std::size_t axis, Placement const& target) {
    steps.push_back({axis, transition_between(now[axis], target), now[axis], target});
    now[axis] = target;
  };
  // Cuts of one dim nest: where an axis starts or stops cutting a dim, the cuts of later axes inside it are opened
  // first, the innermost before the others, and closed again afterwards.
  for (std::size_t i = from.size(); i-- > 0;) {
    if (!is_shard(now[i])) continue;
    int const dim = std::get<Shard>(now[i]).dim;
    for (std::size_t outer = 0; outer < i; ++outer)
      if (from[outer] != to[outer] && (is_shard(from[outer], dim) || is_shard(to[outer], dim)) && is_shard(now[i]))
        take(i, Replicate{});
  }
  for (std::size_t i = 0; i < from.size(); ++i)
    if (now[i] != to[i]) take(i, to[i]);
  return steps;
}

DimRange chunk_range(std::int64_t length, std::int64_t parts, std::int64_t index) {
  EXPECT(parts >= 1 && index >= 0 && index < parts && length >= 0);
  std::int64_t const chunk = (length + parts - 1) / parts;
  std::int64_t const begin = std::min(index * chunk, length);
  return {begin, std::min(chunk, length - begin)};
}

}  // namespace shardbench
