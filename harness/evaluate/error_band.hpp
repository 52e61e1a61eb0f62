#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/config/experiment.hpp"
#include "harness/config/system_profile.hpp"

namespace shardbench {

/// How far off predictions of training steps like this one were on published ones: four of five lay within so many
/// percent, each told with the numbers fitted without its source. Empty where no such step was scored. Alike are those
/// of the same stack, precision, kind of model (dense, experts) and scale (results/accuracy/error_bands.csv).
std::optional<double> error_band_pct(Experiment const& experiment, SoftwareStack const& stack);

/// The same in a table: stack, precision, kind, devices_from, devices_to, rows, band_pct; a header first.
std::optional<double> error_band_pct(std::string_view table, std::string_view stack, std::string_view precision,
                                     std::string_view kind, std::int64_t devices);

/// "within 8.1%": the band in words, and where there is none, of what none was scored.
std::string error_band_text(Experiment const& experiment, SoftwareStack const& stack);

}  // namespace shardbench
