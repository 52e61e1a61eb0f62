#include "harness/evaluate/error_band.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "harness/config/shipped_files.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t columns = 7;
using Cells = std::array<std::string_view, columns>;

Cells cells_of(std::string_view line) {
  Cells cells;
  for (std::string_view& cell : cells) {
    cell = line.substr(0, line.find(','));
    line.remove_prefix(std::min(cell.size() + 1, line.size()));
  }
  return cells;
}

template <class Number>
Number number_of(std::string_view text) {
  Number value{};
  auto const read = std::from_chars(text.data(), text.data() + text.size(), value);
  VALIDATE(read.ec == std::errc() && read.ptr == text.data() + text.size(), "error bands: a cell is no number");
  return value;
}

std::string_view kind_of(Experiment const& e) { return e.model.moe ? "experts" : "dense"; }

}  // namespace

std::optional<double> error_band_pct(std::string_view table, std::string_view stack, std::string_view precision,
                                     std::string_view kind, std::int64_t devices) {
  table.remove_prefix(std::min(table.find('\n'), table.size()));
  while (!table.empty()) {
    table.remove_prefix(1);
    std::string_view const line = table.substr(0, table.find('\n'));
    table.remove_prefix(line.size());
    if (line.empty()) continue;
    auto const [of, at, what, from, to, rows, band] = cells_of(line);
    if (of != stack || at != precision || what != kind) continue;
    if (devices >= number_of<std::int64_t>(from) && devices <= number_of<std::int64_t>(to)) return number_of<double>(band);
  }
  return std::nullopt;
}

std::optional<double> error_band_pct(Experiment const& e, SoftwareStack const& stack) {
  if (e.phase != PhaseKind::train) return std::nullopt;
  return error_band_pct(shipped_error_bands(), stack.name, to_string(stack.precision_that_ran(e.precision)), kind_of(e),
                        e.ranks);
}

std::string error_band_text(Experiment const& e, SoftwareStack const& stack) {
  if (std::optional<double> const band = error_band_pct(e, stack))
    return fmt::format("4 of 5 published steps of this stack, precision and scale were told within {:.1f}%", *band);
  return fmt::format("never scored: no published {} steps of stack {}, {}, {} on about {} devices are known",
                     e.phase == PhaseKind::train ? "training" : "serving", stack.name,
                     to_string(stack.precision_that_ran(e.precision)), kind_of(e), e.ranks);
}

}  // namespace shardbench
