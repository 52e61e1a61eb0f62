#include "harness/config/knob.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Unless the kind of knob has said otherwise, the cell is the text of the flag.
Knob& put(Knob& knob, std::string_view group, std::string_view name, std::string_view description,
          std::string_view unit) {
  auto& cell = knob.column.cell;
  knob.column = {std::string(group), std::string(name), std::string(unit), std::string(description),
                 cell ? std::move(cell) : knob.get};
  return knob;
}

}  // namespace

std::string cell_text::text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  bool const whole = std::trunc(value) == value && std::abs(value) < 0x1p53;
  return whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

Knob& Knob::what(std::string_view name, std::string_view description, std::string_view unit) {
  return put(*this, "what", name, description, unit);
}

Knob& Knob::cut(std::string_view name, std::string_view description, std::string_view unit) {
  return put(*this, "cut", name, description, unit);
}

Knob& Knob::shown_if(std::function<bool(Experiment const&)> holds) {
  return shown_as([holds = std::move(holds), cell = column.cell](Experiment const& e) {
    return holds(e) ? cell(e) : std::string();
  });
}

Knob& Knob::empty_at_zero() {
  return shown_as([cell = column.cell](Experiment const& e) {
    std::string text = cell(e);
    return text == "0" ? std::string() : text;
  });
}

Knob const& find_knob(std::string_view flag) {
  auto const found = std::ranges::find(knobs(), flag, &Knob::flag);
  if (found != knobs().end()) return *found;
  std::vector<std::string> names;
  for (Knob const& knob : knobs()) names.push_back(knob.flag);
  std::string const near = nearest_name(flag, names);
  std::string const suggestion = near.empty() ? "" : fmt::format(", did you mean --{}?", near);
  throw InputError(fmt::format("--{}: unknown flag{}", printable(flag), suggestion));
}

}  // namespace shardbench
