#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// A file of bench/ that is compiled in, under its name without ending.
struct ShippedFile {
  std::string_view name;
  std::string_view text;
};

/// Models, each in the schema its authors publish it in (JSON).
std::span<ShippedFile const> shipped_models();
/// Machines and software stacks (YAML).
std::span<ShippedFile const> shipped_systems();
std::span<ShippedFile const> shipped_stacks();

/// How far off predictions were on published steps (CSV; results/accuracy/error_bands.csv).
std::string_view shipped_error_bands();

inline std::vector<std::string> names_of(std::span<ShippedFile const> files) {
  std::vector<std::string> names;
  for (ShippedFile const& file : files) names.emplace_back(file.name);
  return names;
}

}  // namespace shardbench
