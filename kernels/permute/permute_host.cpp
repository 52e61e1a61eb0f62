#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/core/row_host.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

std::int64_t row_of(std::int32_t const* rows, std::int64_t entry) { return rows ? rows[entry] : entry; }

}  // namespace

void expert_rows(ExpertRowsArgs const& args) {
  std::int64_t const local = args.experts / args.ranks, entries = args.tokens * args.top_k;
  thread_local std::vector<std::int64_t> taken, next, pieces;
  taken.assign(args.experts, 0);
  auto const start = [&](std::int64_t piece) { return args.from == nullptr ? 0 : args.from[piece]; };
  pieces.resize(args.earlier);
  std::iota(pieces.begin(), pieces.end(), std::int64_t{0});
  std::ranges::sort(pieces, {}, start);
  auto piece = pieces.begin();
  // Where an entry stands among those of its expert; rows follow once every expert's number is known.
  auto const place = [&](std::int64_t expert, std::int64_t copy) {
    return (expert / local * args.copies + copy) * local + expert % local;
  };
  std::fill_n(args.counts, args.experts * args.copies, 0);
  for (std::int64_t i = 0; i < entries; ++i) {
    std::int64_t const expert = args.indices[i];
    for (; piece != pieces.end() && start(*piece) <= i / args.top_k; ++piece)
      for (std::int64_t e = 0; e < args.experts; ++e) taken[e] += args.before[*piece * args.experts + e];
    bool const kept = args.capacity == 0 || taken[expert]++ < args.capacity;
    args.rows[i * args.copies] = kept ? args.counts[place(expert, 0)]++ : -1;
  }
  for (std::int64_t e = 0; e < args.experts; ++e)
    for (std::int64_t copy = 1; copy < args.copies; ++copy) args.counts[place(e, copy)] = args.counts[place(e, 0)];
  next.assign(args.experts * args.copies, 0);
  for (std::size_t v = 1; v < next.size(); ++v) next[v] = next[v - 1] + args.counts[v - 1];
  for (std::int64_t i = 0; i < entries; ++i) {
    std::int64_t const position = args.rows[i * args.copies];
    for (std::int64_t copy = 0; copy < args.copies; ++copy)
      args.rows[i * args.copies + copy] =
          position < 0 ? -1 : static_cast<std::int32_t>(next[place(args.indices[i], copy)] + position);
  }
}

void source_rows(SourceRowsArgs const& args) {
  thread_local std::vector<std::int64_t> from;
  from.assign(args.sources * args.experts, 0);
  for (std::size_t i = 1; i < from.size(); ++i) from[i] = from[i - 1] + args.counts[i - 1];
  std::int64_t to = 0;
  for (std::int64_t e = 0; e < args.experts; ++e)
    for (std::int64_t s = 0; s < args.sources; ++s) {
      std::int64_t const chunk = s * args.experts + e, first = from[chunk];
      for (std::int64_t i = 0; i < args.counts[chunk]; ++i) args.rows[first + i] = static_cast<std::int32_t>(to++);
    }
}

void permute(PermuteArgs const& args) {
  with_storage(args.dtype, "permute", [&]<class T>(T) {
    for (std::int64_t i = 0; i < args.tokens * args.slots; ++i) {
      std::int64_t const row = row_of(args.rows, i);
      if (row < 0) continue;
      T const* const from = static_cast<T const*>(args.x) + i / args.slots * args.cols;
      T* const to = static_cast<T*>(args.out) + row * args.cols;
      if (args.weights == nullptr) {
        std::copy_n(from, args.cols, to);
        continue;
      }
      float const weight = args.weights[i / args.copies];
      for (std::int64_t c = 0; c < args.cols; ++c) to[c] = from_float<T>(weight * to_float(from[c]));
    }
  });
}

void unpermute(UnpermuteArgs const& args) {
  thread_local Workspace workspace;
  float* const sum = workspace.floats(args.cols);
  with_storage(args.dtype, "unpermute", [&]<class T>(T) {
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      std::fill_n(sum, args.cols, 0.0f);
      for (std::int64_t i = t * args.slots; i < (t + 1) * args.slots; ++i) {
        std::int64_t const row = row_of(args.rows, i);
        if (row < 0) continue;
        T const* const from = static_cast<T const*>(args.x) + row * args.cols;
        float const weight = args.weights ? args.weights[i / args.copies] : 1.0f;
        for (std::int64_t c = 0; c < args.cols; ++c) sum[c] += weight * to_float(from[c]);
      }
      store_row(sum, static_cast<T*>(args.y) + t * args.cols, args.cols);
    }
  });
}

void combine_weights(CombineWeightsArgs const& args) {
  with_storage(args.dtype, "combine_weights", [&]<class T>(T) {
    for (std::int64_t i = 0; i < args.tokens * args.slots; ++i) {
      std::int64_t const row = row_of(args.rows, i);
      float dot = 0;
      if (row >= 0) {
        T const* const dy = static_cast<T const*>(args.dy) + i / args.slots * args.cols;
        T const* const x = static_cast<T const*>(args.x) + row * args.cols;
        dot = sum_row(args.cols, [&](std::int64_t c) { return to_float(dy[c]) * to_float(x[c]); });
      }
      float& to = args.dweights[i / args.copies];
      to = i % args.copies == 0 ? dot : to + dot;
    }
  });
}

}  // namespace shardbench::host
