#pragma once
#include <cstdint>
#include <vector>

#include "harness/config/cut.hpp"
#include "harness/config/model_config.hpp"
#include "harness/sharding/placement.hpp"
#include "kernels/attention/attention.hpp"

namespace shardbench {

/// How the context axis cuts the sequence: in zigzag where attention is causal, so that all ranks do the same work;
/// contiguous where it is not, or where every rank sees the whole sequence for some of the heads (Ulysses).
ShardLayout context_layout(ModelConfig const& model, CpMethod method);

/// Global sequence ranges that a context rank holds, in local order. `seq` divides by `ranks` (by 2 * `ranks` in
/// zigzag, unless there is one rank).
std::vector<DimRange> context_pieces(ShardLayout layout, std::int64_t seq, std::int64_t ranks, std::int64_t rank);

/// The rows, in the order of (position, sample) over a whole sequence of `batch` samples, that a context rank's local
/// rows [first, first + count) are: one range a piece, empty where they have none of it.
std::vector<DimRange> global_rows(std::vector<DimRange> const& pieces, std::int64_t batch, std::int64_t first,
                                  std::int64_t count);

/// Which keys a query sees, by global positions.
struct ContextRule {
  AttentionMask mask = AttentionMask::causal;
  std::int64_t window = 0;  ///< 0: unlimited
  bool operator==(ContextRule const&) const = default;
};

/// A rectangle of queries and keys, as one attention op computes it. Ranges are rows of the tensors it works on.
struct ContextBlock {
  DimRange q, k;
  ContextRule rule;           ///< what is left to mask inside: nothing where every pair is visible
  std::int64_t q_offset = 0;  ///< position of the first query minus that of the first key
  double pairs = 0;           ///< visible (query, key) pairs
  bool operator==(ContextBlock const&) const = default;
};

/// What a rank computes at each step of the ring; at step s it has the keys of rank (rank - s) mod ranks, as that rank
/// lays them out. Blocks that show no pair are left out, neighbours that show all are one.
std::vector<std::vector<ContextBlock>> ring_blocks(ShardLayout layout, std::int64_t seq, std::int64_t ranks,
                                                   std::int64_t rank, ContextRule rule);

/// A rank's queries against the whole sequence in its natural order, a block a piece, keys up to the last one seen.
std::vector<ContextBlock> gathered_blocks(ShardLayout layout, std::int64_t seq, std::int64_t ranks, std::int64_t rank,
                                          ContextRule rule);

}  // namespace shardbench
