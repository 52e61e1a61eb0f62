#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// Ranks on a grid with named axes, the first axis varying fastest (design: tp, cp, dp, pp).
class DeviceMesh {
 public:
  struct NamedAxis {
    std::string name;
    std::int64_t size = 1;
  };
  /// Throws Error when an axis is smaller than 1 or a name repeats.
  explicit DeviceMesh(std::vector<NamedAxis> axes);
  std::vector<NamedAxis> const& axes() const { return axes_; }
  std::int64_t num_ranks() const;
  std::size_t index_of(std::string_view axis) const;
  std::int64_t size_of(std::string_view axis) const { return axes_[index_of(axis)].size; }
  /// Position of `rank` on every axis.
  std::vector<std::int64_t> coordinate_of(std::int64_t rank) const;
  std::int64_t rank_at(std::vector<std::int64_t> const& coordinate) const;
  /// Ranks that differ from `rank` along the named axes only, in mesh order.
  std::vector<std::int64_t> group_of(std::int64_t rank, std::vector<std::string> const& axes) const;

 private:
  std::vector<NamedAxis> axes_;
};

}  // namespace shardbench
