#pragma once
// What the back ends ask of their buffers alike. No fmt here: the NCCL plugin has none.
#include <cstddef>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

/// Where an element of a buffer starts.
inline std::byte* at(BufferView view, std::size_t element) {
  return static_cast<std::byte*>(view.data) + element * bytes_of(view.dtype);
}

/// `count` elements from `first` on.
inline BufferView part(BufferView view, std::size_t first, std::size_t count) {
  return {at(view, first), count, view.dtype};
}

/// The blocks of so many elements, back to back from the buffer's start.
inline std::vector<BufferView> blocks_of(BufferView whole, std::vector<std::size_t> const& counts) {
  std::vector<BufferView> blocks;
  std::size_t first = 0;
  for (std::size_t const count : counts) blocks.push_back(part(whole, std::exchange(first, first + count), count));
  return blocks;
}

/// Copies in host memory; the buffers may overlap or be empty.
inline void copy(BufferView from, BufferView to) {
  if (from.bytes() > 0 && from.data != to.data) std::memmove(to.data, from.data, from.bytes());
}

/// Whether two buffers share memory.
inline bool overlapping(BufferView a, BufferView b) {
  return a.bytes() > 0 && b.bytes() > 0 && at(a, 0) < at(b, b.count) && at(b, 0) < at(a, a.count);
}

/// Throws Error unless elements of this dtype can be added.
inline void validate_reducible(Dtype dtype) {
  VALIDATE(dtype != Dtype::u8 && !is_fp8(dtype),
           "cannot reduce " + std::string(to_string(dtype)) + " (fp32, bf16, fp64 and int32 are reduced)");
}

/// Throws Error unless `whole` is `ranks` shards of one dtype.
inline void validate_shards(BufferView whole, BufferView shard, int ranks, char const* call) {
  VALIDATE(whole.dtype == shard.dtype && whole.count == ranks * shard.count,
           std::string(call) + ": " + std::to_string(whole.count) + " " + std::string(to_string(whole.dtype)) +
               " elements over " + std::to_string(ranks) + " ranks, " + std::to_string(shard.count) + " " +
               std::string(to_string(shard.dtype)) + " per rank");
}

/// Whether the shard shares memory with the whole. Throws Error unless it is then this rank's own block of it.
inline bool is_in_place(BufferView whole, BufferView shard, int rank, char const* overlap) {
  bool const in_place = overlapping(whole, shard);
  VALIDATE(!in_place || shard.data == at(whole, rank * shard.count),
           std::string(overlap) + " (only this rank's own block may)");
  return in_place;
}

/// Throws Error unless there is a block for each rank and together they are the buffer.
inline void validate_blocks(BufferView view, std::vector<std::size_t> const& counts, int ranks, char const* what) {
  VALIDATE(std::ssize(counts) == ranks && std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == view.count,
           std::string("all_to_all: the ") + what + " blocks do not add up to the buffer of " +
               std::to_string(view.count) + " elements");
}

/// Throws Error unless the blocks are the buffers, which lie apart, and this rank's own block is as large in both.
inline void validate_exchange(BufferView from, std::vector<std::size_t> const& send_counts, BufferView to,
                              std::vector<std::size_t> const& receive_counts, int rank, int ranks) {
  validate_blocks(from, send_counts, ranks, "sent");
  validate_blocks(to, receive_counts, ranks, "received");
  VALIDATE(from.dtype == to.dtype && !overlapping(from, to), "all_to_all buffers overlap or differ in dtype");
  VALIDATE(send_counts[rank] == receive_counts[rank], "all_to_all: a rank's own block has two sizes");
}

/// into = from + into, or the larger of both, element by element; bf16 in float, rounded after each.
template <class T>
void reduce_elements(void const* from, void* into, std::size_t count, ReduceOp op) {
  auto const* a = static_cast<T const*>(from);
  auto* b = static_cast<T*>(into);
  auto const combined = [op](auto x, auto y) { return op == ReduceOp::sum ? x + y : x > y || x != x ? x : y; };
  for (std::size_t i = 0; i < count; ++i)
    if constexpr (std::is_same_v<T, Bf16>)
      b[i] = to_bf16(combined(to_float(a[i]), to_float(b[i])));
    else
      b[i] = combined(a[i], b[i]);
}

}  // namespace shardbench
