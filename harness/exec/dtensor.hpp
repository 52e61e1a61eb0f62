#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/sharding/device_mesh.hpp"
#include "harness/sharding/placement.hpp"

namespace shardbench {

/// A mesh laid over the ranks of a communicator: one group per axis. Mesh rank r is world rank r.
class MeshCommunicators {
 public:
  /// Collective over `world`. Throws InputError when the mesh has another number of ranks.
  MeshCommunicators(DeviceMesh mesh, Communicator& world);
  DeviceMesh const& mesh() const { return mesh_; }
  std::int64_t rank() const { return rank_; }
  /// This rank's position on every axis.
  std::vector<std::int64_t> const& coordinate() const { return coordinate_; }
  /// The ranks that differ from this one along the axis only, in mesh order.
  Communicator& axis(std::size_t index) const { return *groups_[index]; }

 private:
  DeviceMesh mesh_;
  std::int64_t rank_;
  std::vector<std::int64_t> coordinate_;
  std::vector<std::unique_ptr<Communicator>> groups_;
};

/// A global f32 tensor of rank 0 to 4 of which every rank of a mesh holds its part, on the host. Dims are cut as
/// torch.chunk cuts them, by the first mesh axis first; a part may be empty. The communicators must outlive it.
class DTensor {
 public:
  using Shape = std::vector<std::int64_t>;
  /// Value of the element at a global row-major index.
  using Fill = std::function<float(std::int64_t)>;

  std::vector<std::int64_t> const& global_shape() const { return global_; }
  std::vector<std::int64_t> const& local_shape() const { return local_; }
  std::vector<Placement> const& placements() const { return placements_; }
  std::span<float const> local() const { return values_; }
  /// Global row-major index of a local element (row-major).
  std::int64_t global_index(std::int64_t local_index) const;

  /// The same tensor in other placements; runs the steps of redistribute(). Collective over the mesh. Throws Error for
  /// what has no meaning (to Partial) and InputError for placements that a DTensor does not take.
  DTensor redistribute(std::vector<Placement> const& to) const;
  /// The whole tensor, on every rank. Collective.
  std::vector<float> to_global() const;

 private:
  friend DTensor distribute_tensor(Shape, Fill const&, MeshCommunicators const&, std::vector<Placement>);
  friend DTensor from_partial(Shape, std::vector<float>, MeshCommunicators const&, std::vector<Placement>);
  DTensor(Shape global, MeshCommunicators const& mesh, std::vector<Placement> placements);

  void run(RedistributeStep const& step);
  void all_reduce(RedistributeStep const& step);
  void reduce_scatter(RedistributeStep const& step);
  void all_gather(RedistributeStep const& step);
  void all_to_all(RedistributeStep const& step);
  void local_slice(RedistributeStep const& step);
  DimRange range_of(std::size_t dim, std::vector<Placement> const& placements) const;
  Shape local_shape_in(std::vector<Placement> const& placements) const;
  /// What this rank would hold if the axis cut nothing.
  Shape shape_without(std::size_t axis) const;
  std::int64_t parts(std::size_t axis) const;

  Shape global_, local_;
  MeshCommunicators const* mesh_;
  std::vector<Placement> placements_;
  std::vector<float> values_;
};

/// Each rank fills its own part: no communication. `placements`: one per mesh axis, Replicate or contiguous Shard.
/// Throws InputError for other placements, dims that the tensor lacks, or sizes below 0.
DTensor distribute_tensor(DTensor::Shape global_shape, DTensor::Fill const& fill, MeshCommunicators const& mesh,
                          std::vector<Placement> placements);
/// The same from the whole tensor, which every rank has.
DTensor distribute_tensor(DTensor::Shape global_shape, std::span<float const> values, MeshCommunicators const& mesh,
                          std::vector<Placement> placements);

/// Wraps each rank's own term: `placements` has at least one Partial, and `local_values` has the local shape.
DTensor from_partial(DTensor::Shape global_shape, std::vector<float> local_values, MeshCommunicators const& mesh,
                     std::vector<Placement> placements);

/// The range of a dim that a mesh position holds: each axis that cuts the dim cuts what the axes before it left.
DimRange local_range(std::int64_t length, int dim, std::vector<Placement> const& placements, DeviceMesh const& mesh,
                     std::vector<std::int64_t> const& coordinate);

}  // namespace shardbench
