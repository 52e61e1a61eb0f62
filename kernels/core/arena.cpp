#include "kernels/core/arena.hpp"

#include <algorithm>
#include <string>

#include "kernels/core/error.hpp"

namespace shardbench {

// A byte at least: an empty plan still has an address to hand out.
Arena::Arena(Device& device, std::size_t bytes)
    : device_(device), bytes_(bytes), base_(device.allocate(std::max<std::size_t>(bytes, 1))) {}

Arena::~Arena() { device_.deallocate(base_); }

void* Arena::at(std::size_t offset) const {
  VALIDATE(offset <= bytes_,
           "arena offset " + std::to_string(offset) + " lies beyond its " + std::to_string(bytes_) + " bytes");
  return static_cast<std::byte*>(base_) + offset;
}

}  // namespace shardbench
