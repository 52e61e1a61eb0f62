#include "harness/exec/dtensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {

namespace {

constexpr std::size_t max_rank = 4;

std::int64_t elements_of(std::vector<std::int64_t> const& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check(DTensor::Shape const& shape, MeshCommunicators const& mesh, std::vector<Placement> const& placements) {
  if (shape.size() > max_rank)
    throw InputError(fmt::format("DTensor: {} dims given (allowed: 0 to {})", shape.size(), max_rank));
  for (std::int64_t const size : shape)
    if (size < 0)
      throw InputError(fmt::format("DTensor: size {} in shape ({}) is below 0", size, fmt::join(shape, ", ")));
  if (placements.size() != mesh.mesh().axes().size())
    throw InputError(fmt::format("DTensor: {} placements given, the mesh has {} axes", placements.size(),
                                 mesh.mesh().axes().size()));
  for (Placement const& p : placements) {
    auto const* const shard = std::get_if<Shard>(&p);
    bool const plain = shard && shard->layout == ShardLayout::contiguous && shard->replicas == 1;
    if (is_private(p) || (shard && !plain))
      throw InputError(fmt::format(
          "DTensor: placement {} is not one of replicate, shard(DIM), partial(sum), partial(max)", to_string(p)));
    if (shard && (shard->dim < 0 || shard->dim >= std::ssize(shape)))
      throw InputError(fmt::format("DTensor: {} of a tensor with {} dims", to_string(p), shape.size()));
  }
}

/// A part of a tensor: its shape, and where it begins.
struct Box {
  std::vector<std::int64_t> begin, shape;
  std::int64_t elements() const { return elements_of(shape); }
};

/// Part `index` of `shape` cut along `dim` into `parts`.
Box part_of(std::vector<std::int64_t> const& shape, int dim, std::int64_t parts, std::int64_t index) {
  Box box{std::vector<std::int64_t>(shape.size(), 0), shape};
  DimRange const range = chunk_range(shape[dim], parts, index);
  box.begin[dim] = range.begin;
  box.shape[dim] = range.size;
  return box;
}

/// A box inside a row-major tensor, row-major too: rows of the last dim are moved one by one.
template <class Move>
void for_each_row(std::vector<std::int64_t> const& outer, Box const& box, Move move) {
  auto const& [begin, shape] = box;
  std::int64_t const elements = box.elements(), row = shape.empty() ? 1 : shape.back();
  for (std::int64_t inner = 0; inner < elements; inner += row) {
    std::int64_t offset = 0, stride = 1, left = inner;
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += (begin[d] + left % shape[d]) * stride;
      left /= shape[d];
      stride *= outer[d];
    }
    move(offset, inner, row);
  }
}

std::vector<float> cut_box(std::vector<float> const& from, std::vector<std::int64_t> const& outer, Box const& box) {
  std::vector<float> values(box.elements());
  for_each_row(outer, box, [&](std::int64_t offset, std::int64_t inner, std::int64_t count) {
    std::copy_n(from.begin() + offset, count, values.begin() + inner);
  });
  return values;
}

void paste_box(std::vector<float>& to, std::vector<std::int64_t> const& outer, Box const& box, float const* values) {
  for_each_row(outer, box, [&](std::int64_t offset, std::int64_t inner, std::int64_t count) {
    std::copy_n(values + inner, count, to.begin() + offset);
  });
}

BufferView view_of(std::vector<float>& values) { return {values.data(), values.size(), Dtype::f32}; }

int dim_of(Placement const& p) { return std::get<Shard>(p).dim; }

}  // namespace

MeshCommunicators::MeshCommunicators(DeviceMesh mesh, Communicator& world)
    : mesh_(std::move(mesh)), rank_(world.rank()) {
  if (mesh_.num_ranks() != world.size())
    throw InputError(fmt::format("mesh: {} ranks laid out, the job has {}", mesh_.num_ranks(), world.size()));
  coordinate_ = mesh_.coordinate_of(rank_);
  for (std::size_t a = 0; a < mesh_.axes().size(); ++a) {
    auto const group = mesh_.group_of(rank_, {mesh_.axes()[a].name});
    groups_.push_back(world.split(static_cast<int>(group.front()), static_cast<int>(coordinate_[a])));
  }
}

DimRange local_range(std::int64_t length, int dim, std::vector<Placement> const& placements, DeviceMesh const& mesh,
                     std::vector<std::int64_t> const& coordinate) {
  DimRange range{0, length};
  for (std::size_t a = 0; a < placements.size(); ++a) {
    if (!is_shard(placements[a], dim)) continue;
    DimRange const inner = chunk_range(range.size, mesh.axes()[a].size, coordinate[a]);
    range = {range.begin + inner.begin, inner.size};
  }
  return range;
}

DTensor::DTensor(Shape global, MeshCommunicators const& mesh, std::vector<Placement> placements)
    : global_(std::move(global)), mesh_(&mesh), placements_(std::move(placements)) {
  check(global_, mesh, placements_);
  local_ = local_shape_in(placements_);
  values_.resize(elements_of(local_));
}

DimRange DTensor::range_of(std::size_t dim, std::vector<Placement> const& placements) const {
  return local_range(global_[dim], static_cast<int>(dim), placements, mesh_->mesh(), mesh_->coordinate());
}

DTensor::Shape DTensor::local_shape_in(std::vector<Placement> const& placements) const {
  Shape shape;
  for (std::size_t d = 0; d < global_.size(); ++d) shape.push_back(range_of(d, placements).size);
  return shape;
}

DTensor::Shape DTensor::shape_without(std::size_t axis) const {
  std::vector<Placement> whole = placements_;
  whole[axis] = Replicate{};
  return local_shape_in(whole);
}

std::int64_t DTensor::parts(std::size_t axis) const { return mesh_->mesh().axes()[axis].size; }

std::int64_t DTensor::global_index(std::int64_t local_index) const {
  std::int64_t index = 0, stride = 1;
  for (std::size_t d = global_.size(); d-- > 0;) {
    index += (range_of(d, placements_).begin + local_index % local_[d]) * stride;
    local_index /= local_[d];
    stride *= global_[d];
  }
  return index;
}

DTensor distribute_tensor(DTensor::Shape global_shape, DTensor::Fill const& fill, MeshCommunicators const& mesh,
                          std::vector<Placement> placements) {
  DTensor t(std::move(global_shape), mesh, std::move(placements));
  if (std::ranges::any_of(t.placements_, is_partial))
    throw InputError("distribute_tensor: partial placements come from operations (use from_partial)");
  for (std::size_t i = 0; i < t.values_.size(); ++i) t.values_[i] = fill(t.global_index(static_cast<std::int64_t>(i)));
  return t;
}

DTensor distribute_tensor(DTensor::Shape global_shape, std::span<float const> values, MeshCommunicators const& mesh,
                          std::vector<Placement> placements) {
  if (std::ssize(values) != elements_of(global_shape))
    throw InputError(
        fmt::format("distribute_tensor: {} values given for shape ({})", values.size(), fmt::join(global_shape, ", ")));
  return distribute_tensor(
      std::move(global_shape), [&](std::int64_t i) { return values[i]; }, mesh, std::move(placements));
}

DTensor from_partial(DTensor::Shape global_shape, std::vector<float> local_values, MeshCommunicators const& mesh,
                     std::vector<Placement> placements) {
  DTensor t(std::move(global_shape), mesh, std::move(placements));
  if (std::ranges::none_of(t.placements_, is_partial)) throw InputError("from_partial: no placement is partial");
  if (local_values.size() != t.values_.size())
    throw InputError(fmt::format("from_partial: {} values given for local shape ({})", local_values.size(),
                                 fmt::join(t.local_, ", ")));
  t.values_ = std::move(local_values);
  return t;
}

DTensor DTensor::redistribute(std::vector<Placement> const& to) const {
  check(global_, *mesh_, to);
  DTensor t = *this;
  for (RedistributeStep const& step : shardbench::redistribute(placements_, to)) t.run(step);
  return t;
}

std::vector<float> DTensor::to_global() const {
  return redistribute(std::vector<Placement>(placements_.size(), Replicate{})).values_;
}

void DTensor::run(RedistributeStep const& step) {
  constexpr std::pair<Transition, void (DTensor::*)(RedistributeStep const&)> ways[] = {
      {Transition::all_reduce, &DTensor::all_reduce},   {Transition::reduce_scatter, &DTensor::reduce_scatter},
      {Transition::all_gather, &DTensor::all_gather},   {Transition::all_to_all, &DTensor::all_to_all},
      {Transition::local_slice, &DTensor::local_slice},
  };
  auto const* const way = std::ranges::find(ways, step.transition, [](auto const& w) { return w.first; });
  if (way == std::end(ways))
    throw Error(fmt::format("DTensor: no step from {} to {}", to_string(step.from), to_string(step.to)));
  (this->*way->second)(step);
  placements_[step.axis] = step.to;
  local_ = local_shape_in(placements_);
  VALIDATE(std::ssize(values_) == elements_of(local_),
           fmt::format("DTensor: {} values for local shape ({})", values_.size(), fmt::join(local_, ", ")));
}

void DTensor::all_reduce(RedistributeStep const& step) {
  InlineStream stream;
  ReduceOp const op = std::get<Partial>(step.from).op == PartialOp::max ? ReduceOp::max : ReduceOp::sum;
  mesh_->axis(step.axis).all_reduce(view_of(values_), op, stream);
}

void DTensor::local_slice(RedistributeStep const& step) {
  values_ =
      cut_box(values_, local_, part_of(local_, dim_of(step.to), parts(step.axis), mesh_->coordinate()[step.axis]));
}

void DTensor::reduce_scatter(RedistributeStep const& step) {
  if (std::get<Partial>(step.from).op == PartialOp::max) {
    // Communicators scatter sums only.
    all_reduce(step);
    local_slice(step);
    return;
  }
  // Parts are padded to the largest, which is the first.
  std::int64_t const parts = this->parts(step.axis);
  auto const part = [&](std::int64_t i) { return part_of(local_, dim_of(step.to), parts, i); };
  std::int64_t const padded = part(0).elements();
  std::vector<float> from(padded * parts, 0.0f), mine(padded);
  for (std::int64_t i = 0; i < parts; ++i)
    std::ranges::copy(cut_box(values_, local_, part(i)), from.begin() + i * padded);
  InlineStream stream;
  mesh_->axis(step.axis).reduce_scatter(view_of(from), view_of(mine), stream);
  mine.resize(part(mesh_->coordinate()[step.axis]).elements());
  values_ = std::move(mine);
}

void DTensor::all_gather(RedistributeStep const& step) {
  std::int64_t const parts = this->parts(step.axis);
  Shape const shape = shape_without(step.axis);
  auto const part = [&](std::int64_t i) { return part_of(shape, dim_of(step.from), parts, i); };
  std::int64_t const padded = part(0).elements();
  std::vector<float> mine = values_, all(padded * parts);
  mine.resize(padded, 0.0f);
  InlineStream stream;
  mesh_->axis(step.axis).all_gather(view_of(mine), view_of(all), stream);
  values_.assign(elements_of(shape), 0.0f);
  for (std::int64_t i = 0; i < parts; ++i) paste_box(values_, shape, part(i), all.data() + i * padded);
}

void DTensor::all_to_all(RedistributeStep const& step) {
  std::int64_t const parts = this->parts(step.axis), index = mesh_->coordinate()[step.axis];
  int const from_dim = dim_of(step.from), to_dim = dim_of(step.to);
  // I hold part `index` along from_dim; rank i wants part i along to_dim of it. Blocks need no padding: their sizes are
  // sent.
  std::vector<float> send;
  std::vector<std::size_t> send_counts, receive_counts;
  for (std::int64_t i = 0; i < parts; ++i) {
    auto const block = cut_box(values_, local_, part_of(local_, to_dim, parts, i));
    send.insert(send.end(), block.begin(), block.end());
    send_counts.push_back(block.size());
  }
  Shape const mine = part_of(shape_without(step.axis), to_dim, parts, index).shape;
  auto const part = [&](std::int64_t i) { return part_of(mine, from_dim, parts, i); };
  for (std::int64_t i = 0; i < parts; ++i) receive_counts.push_back(part(i).elements());
  std::vector<float> received(elements_of(mine));
  InlineStream stream;
  mesh_->axis(step.axis).all_to_all(view_of(send), send_counts, view_of(received), receive_counts, stream);
  values_.assign(elements_of(mine), 0.0f);
  std::size_t offset = 0;
  for (std::int64_t i = 0; i < parts; offset += receive_counts[i++])
    paste_box(values_, mine, part(i), received.data() + offset);
}

}  // namespace shardbench
