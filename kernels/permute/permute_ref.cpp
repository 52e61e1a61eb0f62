#include <vector>

#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

std::int64_t row_of(std::int32_t const* rows, std::int64_t entry) { return rows ? rows[entry] : entry; }
double weight_of(float const* weights, std::int64_t entry) {
  return weights ? static_cast<double>(weights[entry]) : 1.0;
}

}  // namespace

void expert_rows(ExpertRowsArgs const& args) {
  std::int64_t const local = args.experts / args.ranks, entries = args.tokens * args.top_k;
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < entries * args.copies; ++i) args.rows[i] = -1;
  for (std::int64_t rank = 0; rank < args.ranks; ++rank)
    for (std::int64_t copy = 0; copy < args.copies; ++copy)
      for (std::int64_t l = 0; l < local; ++l) {
        std::int64_t const expert = rank * local + l;
        std::int64_t chosen = 0, kept = 0;
        for (std::int64_t i = 0; i < entries; ++i) {
          if (args.indices[i] != expert) continue;
          std::int64_t ahead = chosen++;
          for (std::int64_t b = 0; b < args.earlier; ++b)
            if (args.from == nullptr || args.from[b] <= i / args.top_k) ahead += args.before[b * args.experts + expert];
          if (args.capacity > 0 && ahead >= args.capacity) continue;
          args.rows[i * args.copies + copy] = static_cast<std::int32_t>(row++);
          ++kept;
        }
        args.counts[(rank * args.copies + copy) * local + l] = static_cast<std::int32_t>(kept);
      }
}

void source_rows(SourceRowsArgs const& args) {
  std::int64_t to = 0;
  for (std::int64_t e = 0; e < args.experts; ++e)
    for (std::int64_t s = 0; s < args.sources; ++s) {
      std::int64_t from = 0;
      for (std::int64_t i = 0; i < s * args.experts + e; ++i) from += args.counts[i];
      for (std::int64_t i = 0; i < args.counts[s * args.experts + e]; ++i)
        args.rows[from + i] = static_cast<std::int32_t>(to++);
    }
}

void permute(PermuteArgs const& args) {
  for (std::int64_t i = 0; i < args.tokens * args.slots; ++i) {
    std::int64_t const row = row_of(args.rows, i);
    for (std::int64_t c = 0; row >= 0 && c < args.cols; ++c)
      write_element(
          args.out, args.dtype, row * args.cols + c,
          weight_of(args.weights, i / args.copies) * read_element(args.x, args.dtype, i / args.slots * args.cols + c));
  }
}

void unpermute(UnpermuteArgs const& args) {
  for (std::int64_t t = 0; t < args.tokens; ++t)
    for (std::int64_t c = 0; c < args.cols; ++c) {
      double sum = 0;
      for (std::int64_t i = t * args.slots; i < (t + 1) * args.slots; ++i)
        if (std::int64_t const row = row_of(args.rows, i); row >= 0)
          sum += weight_of(args.weights, i / args.copies) * read_element(args.x, args.dtype, row * args.cols + c);
      write_element(args.y, args.dtype, t * args.cols + c, sum);
    }
}

void combine_weights(CombineWeightsArgs const& args) {
  std::vector<double> sums(args.tokens * args.slots / args.copies, 0.0);
  for (std::int64_t i = 0; i < args.tokens * args.slots; ++i)
    if (std::int64_t const row = row_of(args.rows, i); row >= 0)
      for (std::int64_t c = 0; c < args.cols; ++c)
        sums[i / args.copies] += read_element(args.dy, args.dtype, i / args.slots * args.cols + c) *
                                 read_element(args.x, args.dtype, row * args.cols + c);
  for (std::size_t i = 0; i < sums.size(); ++i) args.dweights[i] = static_cast<float>(sums[i]);
}

}  // namespace shardbench::reference
