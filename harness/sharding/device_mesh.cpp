#include "harness/sharding/device_mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/error.hpp"

namespace shardbench {

DeviceMesh::DeviceMesh(std::vector<NamedAxis> axes) : axes_(std::move(axes)) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    VALIDATE(axes_[i].size >= 1,
             fmt::format("mesh axis '{}' has size {} (must be >= 1)", axes_[i].name, axes_[i].size));
    for (std::size_t j = 0; j < i; ++j)
      VALIDATE(axes_[j].name != axes_[i].name, fmt::format("mesh axis '{}' is named twice", axes_[i].name));
  }
}

std::int64_t DeviceMesh::num_ranks() const {
  std::int64_t n = 1;
  for (auto const& axis : axes_) n *= axis.size;
  return n;
}

std::size_t DeviceMesh::index_of(std::string_view axis) const {
  auto const it = std::ranges::find(axes_, axis, &NamedAxis::name);
  VALIDATE(it != axes_.end(), fmt::format("mesh has no axis '{}'", axis));
  return it - axes_.begin();
}

std::vector<std::int64_t> DeviceMesh::coordinate_of(std::int64_t rank) const {
  VALIDATE(rank >= 0 && rank < num_ranks(), fmt::format("rank {} is outside the mesh of {} ranks", rank, num_ranks()));
  std::vector<std::int64_t> coordinate;
  for (auto const& axis : axes_) {
    coordinate.push_back(rank % axis.size);
    rank /= axis.size;
  }
  return coordinate;
}

std::int64_t DeviceMesh::rank_at(std::vector<std::int64_t> const& coordinate) const {
  EXPECT(coordinate.size() == axes_.size());
  std::int64_t rank = 0;
  for (std::size_t i = axes_.size(); i-- > 0;) rank = rank * axes_[i].size + coordinate[i];
  return rank;
}

std::vector<std::int64_t> DeviceMesh::group_of(std::int64_t rank, std::vector<std::string> const& axes) const {
  std::vector<bool> varies(axes_.size(), false);
  for (auto const& name : axes) varies[index_of(name)] = true;
  auto const own = coordinate_of(rank);
  std::vector<std::int64_t> group{0};
  std::int64_t stride = 1;
  // Slower axes multiply what the faster ones gave, so the group comes out in mesh order.
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    std::vector<std::int64_t> next;
    for (std::int64_t position = varies[i] ? 0 : own[i]; position <= (varies[i] ? axes_[i].size - 1 : own[i]);
         ++position)
      for (std::int64_t const member : group) next.push_back(member + position * stride);
    group = std::move(next);
    stride *= axes_[i].size;
  }
  return group;
}

}  // namespace shardbench
