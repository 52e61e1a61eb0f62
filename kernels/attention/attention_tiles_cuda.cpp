#include "kernels/attention/attention_tiles_cuda.hpp"

#include <algorithm>

#include "kernels/attention/attention_math.hpp"

namespace shardbench::cuda {
namespace {

// Enough rows for a full GEMM tile; more only cost masked scores under a causal mask.
constexpr std::int64_t wanted_queries = 256, most_queries = 1024, most_batch = 65535;

std::int64_t at_least_one(std::size_t bytes, std::int64_t item_bytes) {
  return std::max<std::int64_t>(static_cast<std::int64_t>(bytes) / std::max<std::int64_t>(item_bytes, 1), 1);
}

Matrix head_matrix(AttentionShape const& shape, AttentionTensor const& tensor, std::int64_t b, std::int64_t head,
                   std::int64_t head_step, std::int64_t row, std::int64_t dim) {
  std::int64_t const offset = (row * shape.batch + b) * tensor.row_stride + head * dim;
  return {static_cast<std::byte const*>(tensor.data) + offset * static_cast<std::int64_t>(bytes_of(shape.dtype)),
          tensor.row_stride * shape.batch, head_step * dim, shape.dtype};
}

/// Heads and queries whose scores, `score_bytes` an element, fit `room`.
AttentionTiles fit(AttentionShape const& shape, std::int64_t keys, std::int64_t score_bytes, std::size_t room,
                   std::int64_t most_heads) {
  std::int64_t const row_bytes = score_stride(keys) * score_bytes;
  VALIDATE(row_bytes <= static_cast<std::int64_t>(room),
           "attention over " + std::to_string(keys) + " keys needs more scratch memory than this GPU is given");
  AttentionTiles tiles{.keys = keys};
  std::int64_t const rows = std::min(shape.seq_q, wanted_queries);
  tiles.heads = std::min({at_least_one(room, rows * row_bytes), most_heads, most_batch});
  tiles.queries = std::min({at_least_one(room, tiles.heads * row_bytes), shape.seq_q, most_queries});
  return tiles;
}

}  // namespace

std::int64_t score_stride(std::int64_t keys) { return (keys + 15) / 16 * 16; }

AttentionTiles forward_tiles(AttentionShape const& shape, std::size_t scratch_bytes) {
  std::int64_t const score_bytes = shape.dtype == Dtype::f32 ? 4 : 6;
  return fit(shape, shape.seq_k, score_bytes, scratch_bytes, shape.kv_heads);
}

AttentionTiles backward_tiles(AttentionShape const& shape, std::size_t scratch_bytes) {
  std::size_t const room = scratch_bytes / 2 - 256;  // less what rounding pieces to 16 bytes can cost
  std::int64_t const key_bytes = (shape.head_dim + shape.value_dim) * 4;
  std::int64_t const score_bytes = shape.dtype == Dtype::f32 ? 8 : 12;
  // One row of scores must fit as well, with its padding.
  std::int64_t const row_keys = std::max<std::int64_t>(at_least_one(room, score_bytes) - 16, 1);
  std::int64_t const keys = std::min({shape.seq_k, at_least_one(room, key_bytes), row_keys});
  return fit(shape, keys, score_bytes, room, std::min(shape.kv_heads, at_least_one(room, keys * key_bytes)));
}

TokenRange visible_keys(AttentionShape const& shape, TokenRange queries) {
  TokenRange keys{0, shape.seq_k};
  if (shape.q_positions || shape.k_positions) return keys;
  std::int64_t const shift = q_offset(shape);
  if (shape.mask == AttentionMask::causal) keys.end = std::clamp<std::int64_t>(queries.end + shift, 1, shape.seq_k);
  if (shape.window > 0)
    keys.begin = std::clamp<std::int64_t>(queries.begin + shift - shape.window + 1, 0, keys.end - 1);
  return keys;
}

Matrix query_matrix(AttentionShape const& shape, AttentionTensor const& tensor, HeadTile const& tile, TokenRange rows,
                    std::int64_t dim) {
  return head_matrix(shape, tensor, tile.b, tile.first_query_head(), tile.group, rows.begin, dim);
}

Matrix kv_matrix(AttentionShape const& shape, AttentionTensor const& tensor, HeadTile const& tile, TokenRange rows,
                 std::int64_t dim) {
  return head_matrix(shape, tensor, tile.b, tile.first_kv_head, 1, rows.begin, dim);
}

}  // namespace shardbench::cuda
