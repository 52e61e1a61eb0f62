#pragma once
// What the host back ends ask of their buffers alike.
#include <fmt/format.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include "harness/comm/communicator.hpp"
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

/// Whether two buffers share memory.
inline bool overlapping(BufferView a, BufferView b) {
  return a.bytes() > 0 && b.bytes() > 0 && at(a, 0) < at(b, b.count) && at(b, 0) < at(a, a.count);
}

/// Throws Error unless `whole` is `ranks` shards of one dtype.
inline void validate_shards(BufferView whole, BufferView shard, int ranks, char const* call) {
  VALIDATE(whole.dtype == shard.dtype && whole.count == ranks * shard.count,
           fmt::format("{}: {} {} elements over {} ranks, {} {} per rank", call, whole.count, to_string(whole.dtype),
                       ranks, shard.count, to_string(shard.dtype)));
}

/// Throws Error unless there is a block for each rank and together they are the buffer.
inline void validate_blocks(BufferView view, std::vector<std::size_t> const& counts, int ranks, char const* what) {
  VALIDATE(std::ssize(counts) == ranks && std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == view.count,
           fmt::format("all_to_all: the {} blocks do not add up to the buffer of {} elements", what, view.count));
}

}  // namespace shardbench
