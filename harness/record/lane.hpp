#pragma once
#include <cstdint>
#include <string_view>

namespace shardbench {

/// What a span of time was spent on, as the breakdown sees it: compute, or communication billed to a mesh axis.
enum class Lane : std::uint8_t { compute, tp, cp, dp, pp, ep, size_ };
std::string_view to_string(Lane lane);

}  // namespace shardbench
