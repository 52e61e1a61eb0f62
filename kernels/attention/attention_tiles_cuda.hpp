#pragma once
#include "kernels/attention/attention.hpp"
#include "kernels/core/cuda/stream.hpp"
#include "kernels/gemm/matmul_cuda.hpp"

namespace shardbench::cuda {

/// A half-open range of queries or keys.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// How many kv heads, queries and keys are worked on at once, so that their scores fit the stream's scratch memory.
struct AttentionTiles {
  std::int64_t heads = 1, queries = 1, keys = 1;
};

/// Forward tiles hold whole rows of scores.
AttentionTiles forward_tiles(AttentionShape const& shape, std::size_t scratch_bytes);

/// Backward tiles also hold fp32 gradients of `keys` keys and values.
AttentionTiles backward_tiles(AttentionShape const& shape, std::size_t scratch_bytes);

/// Distance between rows of scores: 16-byte aligned in every dtype.
std::int64_t score_stride(std::int64_t keys);

/// The keys that some query of the range may see, never empty. Positions given as arrays are unknown to the host: all.
TokenRange visible_keys(AttentionShape const& shape, TokenRange queries);

/// What a tile works on: `heads` kv heads from `first_kv_head` in sequence `b`, for each the same member of its group.
struct HeadTile {
  std::int64_t b = 0, first_kv_head = 0, heads = 0, member = 0, group = 1;
  std::int64_t first_query_head() const { return first_kv_head * group + member; }
};

/// Rows of the query heads of a tile (`dim` elements a head), as a batched matrix.
Matrix query_matrix(AttentionShape const& shape, AttentionTensor const& tensor, HeadTile const& tile, TokenRange rows,
                    std::int64_t dim);

/// The same for the kv heads.
Matrix kv_matrix(AttentionShape const& shape, AttentionTensor const& tensor, HeadTile const& tile, TokenRange rows,
                 std::int64_t dim);

inline Matrix transpose(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

}  // namespace shardbench::cuda
