#include "harness/program/graph/context_blocks.hpp"

#include <algorithm>

namespace shardbench {

ShardLayout context_layout(ModelConfig const& model, CpMethod method) {
  return model.causal && method != CpMethod::ulysses ? ShardLayout::zigzag : ShardLayout::contiguous;
}

std::vector<DimRange> context_pieces(ShardLayout layout, std::int64_t seq, std::int64_t ranks, std::int64_t rank) {
  if (layout == ShardLayout::contiguous || ranks == 1) {
    std::int64_t const size = seq / ranks;
    return {{rank * size, size}};
  }
  std::int64_t const size = seq / (2 * ranks);
  return {{rank * size, size}, {(2 * ranks - 1 - rank) * size, size}};
}

std::vector<DimRange> global_rows(std::vector<DimRange> const& pieces, std::int64_t batch, std::int64_t first,
                                  std::int64_t count) {
  std::vector<DimRange> ranges;
  std::int64_t at = 0;
  for (DimRange const& piece : pieces) {
    std::int64_t const size = piece.size * batch, begin = std::clamp<std::int64_t>(first - at, 0, size),
                       end = std::clamp<std::int64_t>(first + count - at, 0, size);
    ranges.push_back({piece.begin * batch + begin, end - begin});
    at += size;
  }
  return ranges;
}

namespace {

bool all_visible(ContextBlock const& b) {
  return b.pairs == static_cast<double>(b.q.size) * static_cast<double>(b.k.size);
}

/// The block of a query range at global `q_begin` and a key range at global `k_begin`; `q` and `k` are its rows.
ContextBlock block_of(DimRange q, std::int64_t q_begin, DimRange k, std::int64_t k_begin, ContextRule rule) {
  ContextBlock b{q, k, rule, q_begin - k_begin, 0};
  b.pairs = visible_pairs({q.size, k.size, rule.mask == AttentionMask::causal, rule.window, b.q_offset});
  if (all_visible(b)) b.rule = {AttentionMask::none, 0};
  return b;
}

bool joins(DimRange a, DimRange b) { return a.begin + a.size == b.begin; }

/// Neighbouring blocks in which everything is visible become one: larger products, fewer merges.
void join_full_blocks(std::vector<ContextBlock>& blocks) {
  for (bool found = true; found;) {
    found = false;
    for (std::size_t i = 0; i < blocks.size() && !found; ++i)
      for (std::size_t j = 0; j < blocks.size() && !found; ++j) {
        ContextBlock &a = blocks[i], &b = blocks[j];
        if (!all_visible(a) || !all_visible(b)) continue;
        bool const keys = a.q == b.q && joins(a.k, b.k), queries = a.k == b.k && joins(a.q, b.q);
        if (!keys && !queries) continue;
        (keys ? a.k.size : a.q.size) += (keys ? b.k.size : b.q.size);
        a.pairs += b.pairs;
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(j));
        found = true;
      }
  }
}

/// Rows that a rank's pieces take, one after the other.
std::vector<DimRange> rows_of(std::vector<DimRange> const& pieces) {
  std::vector<DimRange> rows;
  std::int64_t at = 0;
  for (DimRange const& piece : pieces) {
    rows.push_back({at, piece.size});
    at += piece.size;
  }
  return rows;
}

std::vector<ContextBlock> pair_blocks(std::vector<DimRange> const& queries, std::vector<DimRange> const& keys,
                                      ContextRule rule) {
  auto const q_rows = rows_of(queries), k_rows = rows_of(keys);
  std::vector<ContextBlock> blocks;
  for (std::size_t q = 0; q < queries.size(); ++q)
    for (std::size_t k = 0; k < keys.size(); ++k) {
      ContextBlock const b = block_of(q_rows[q], queries[q].begin, k_rows[k], keys[k].begin, rule);
      if (b.pairs > 0) blocks.push_back(b);
    }
  join_full_blocks(blocks);
  return blocks;
}

}  // namespace

std::vector<std::vector<ContextBlock>> ring_blocks(ShardLayout layout, std::int64_t seq, std::int64_t ranks,
                                                   std::int64_t rank, ContextRule rule) {
  auto const mine = context_pieces(layout, seq, ranks, rank);
  std::int64_t const local = seq / ranks;
  std::vector<std::vector<ContextBlock>> steps;
  for (std::int64_t s = 0; s < ranks; ++s) {
    std::int64_t const owner = (rank - s + ranks) % ranks;
    // A rank's own pieces ascend, so causality among them is that of their rows: one block.
    if (s == 0 && rule.window == 0)
      steps.push_back({block_of({0, local}, 0, {0, local}, 0, rule)});
    else
      steps.push_back(pair_blocks(mine, context_pieces(layout, seq, ranks, owner), rule));
  }
  return steps;
}

std::vector<ContextBlock> gathered_blocks(ShardLayout layout, std::int64_t seq, std::int64_t ranks, std::int64_t rank,
                                          ContextRule rule) {
  auto const pieces = context_pieces(layout, seq, ranks, rank);
  auto const rows = rows_of(pieces);
  std::vector<ContextBlock> blocks;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::int64_t const end = rule.mask == AttentionMask::causal ? pieces[i].begin + pieces[i].size : seq;
    blocks.push_back(block_of(rows[i], pieces[i].begin, {0, end}, 0, rule));
  }
  return blocks;
}

}  // namespace shardbench
