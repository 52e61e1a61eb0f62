#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/core/index.hpp"

namespace shardbench {

/// Mesh axes as the program knows them. `ep` is billed for expert traffic; its ranks are those of tp, cp and dp.
enum class Axis : std::uint8_t { tp, cp, dp, pp, ep, size_ };
std::string_view to_string(Axis axis);
inline constexpr std::size_t axis_count = enum_count<Axis>;

}  // namespace shardbench
