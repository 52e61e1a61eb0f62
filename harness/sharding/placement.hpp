#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/dtype.hpp"

namespace shardbench {

enum class PartialOp : std::uint8_t { sum, max };
enum class ShardLayout : std::uint8_t { contiguous, zigzag };

/// Every rank of the axis holds the whole tensor.
struct Replicate {
  bool operator==(Replicate const&) const = default;
};

/// Each rank holds a piece of tensor dim `dim`, cut as torch.chunk does. With `replicas` > 1 that many neighbouring
/// ranks hold the same piece (KV heads fewer than tp); `zigzag` gives rank r pieces r and 2n-1-r of 2n (context
/// parallel).
struct Shard {
  int dim = 0;
  ShardLayout layout = ShardLayout::contiguous;
  std::int64_t replicas = 1;
  bool operator==(Shard const&) const = default;
};

/// Each rank holds a term; the tensor is their sum (or max).
struct Partial {
  PartialOp op = PartialOp::sum;
  bool operator==(Partial const&) const = default;
};

/// Each rank has a value of its own with no global tensor behind it, save the first `synced` elements of the last dim,
/// which are the same everywhere (partially synchronised activations). Never redistributed; its gradient is a term of
/// the sum over the ranks.
struct Private {
  std::int64_t synced = 0;
  bool operator==(Private const&) const = default;
};

/// How a tensor lies along one mesh axis: a value, as in PyTorch's DTensor.
using Placement = std::variant<Replicate, Shard, Partial, Private>;

inline bool is_replicate(Placement const& p) { return std::holds_alternative<Replicate>(p); }
inline bool is_shard(Placement const& p) { return std::holds_alternative<Shard>(p); }
inline bool is_shard(Placement const& p, int dim) { return is_shard(p) && std::get<Shard>(p).dim == dim; }
inline bool is_partial(Placement const& p) { return std::holds_alternative<Partial>(p); }
inline bool is_private(Placement const& p) { return std::holds_alternative<Private>(p); }

/// "replicate", "shard(0)", "shard(0,zigzag)", "partial(sum)", "private(512)"; parse_placement reads it back.
std::string to_string(Placement const& placement);
/// Throws InputError naming the text and the forms that are allowed.
Placement parse_placement(std::string const& text);

/// What has to happen along one axis to turn one placement into another.
enum class Transition : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  local_slice,
  partial_sync,
  private_copy
};
std::string_view to_string(Transition transition);

/// The transition from `from` to `to`; throws Error for what has no meaning (to Partial, out of Private).
Transition transition_between(Placement const& from, Placement const& to);

/// The placement of the gradient of a tensor placed like `forward`: that of a Partial sum is Replicate, that of Private
/// copies a Partial sum, others keep theirs.
Placement gradient_placement(Placement const& forward);

/// One step of a redistribution: what happens along which mesh axis.
struct RedistributeStep {
  std::size_t axis = 0;
  Transition transition = Transition::none;
  Placement from, to;
  bool operator==(RedistributeStep const&) const = default;
};

/// Pure: the steps that turn `from` into `to` (one placement per axis). Each axis cuts what the axes before it left, so
/// where an axis starts or stops cutting a dim, later axes' cuts of it are opened first, from the last axis backwards.
std::vector<RedistributeStep> redistribute(std::vector<Placement> const& from, std::vector<Placement> const& to);

/// A half-open range of a tensor dim.
struct DimRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  bool operator==(DimRange const&) const = default;
};

/// torch.chunk: chunk = ceil(length/parts); the last parts may be short or empty (10 over 4 is 3,3,3,1; 3 over 4 is
/// 1,1,1,0).
DimRange chunk_range(std::int64_t length, std::int64_t parts, std::int64_t index);

}  // namespace shardbench
