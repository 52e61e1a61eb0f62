#pragma once
#include <cstddef>

#include "kernels/core/device.hpp"

namespace shardbench {

/// One allocation per rank, taken before the first step; a step itself never allocates.
class Arena {
 public:
  /// Throws OutOfMemory when the device has no room for `bytes`.
  Arena(Device& device, std::size_t bytes);
  ~Arena();
  Arena(Arena const&) = delete;
  Arena& operator=(Arena const&) = delete;
  /// Address of `offset` (bytes) in the arena.
  void* at(std::size_t offset) const;
  std::size_t size() const { return bytes_; }

 private:
  Device& device_;
  std::size_t bytes_;
  void* base_;
};

}  // namespace shardbench
