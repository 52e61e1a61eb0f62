#pragma once
#include <span>
#include <string_view>

namespace shardbench {

/// A model that ships with the program, in the schema its authors publish it in.
struct Preset {
  std::string_view name;
  std::string_view json;
};
std::span<Preset const> presets();

}  // namespace shardbench
