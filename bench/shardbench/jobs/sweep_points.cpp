#include "bench/shardbench/jobs/sweep_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bench/shardbench/cli/outputs.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/knob.hpp"
#include "harness/sharding/strategy.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr char separator = '\x1f';

/// Flags on the command line replace what the file says of them.
void override_flag(SweepSpec& spec, std::string const& flag, std::string const& text) {
  std::vector<std::string> values = split_list(flag, text);
  for (std::string const& value : values) {
    Experiment scratch;
    set_field(scratch, flag, value);
  }
  std::erase_if(spec.lists.of, [&](auto const& axis) { return axis.first == flag; });
  if (values.size() == 1)
    set_field(spec.base, flag, values.front());
  else
    spec.lists.of.emplace_back(flag, std::move(values));
}

std::string name_of(Experiment const& e, SweepLists const& lists) {
  std::string name;
  for (auto const& [flag, values] : lists.of) {
    std::string const text = field_text(e, flag);
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", flag, text);
  }
  return name.empty() ? e.model_name : name;
}

/// Resolves the point; what makes it illegal goes into `skipped`, the number of ranks asked for first.
void judge(SweepPoint& point) {
  Experiment& e = point.experiment;
  std::int64_t const asked = e.ranks, used = e.cut.ranks();
  if (asked > 0 && asked != used)
    point.skipped = fmt::format("uses {} rank{}, {} asked", used, used == 1 ? "" : "s", asked);
  e.ranks = 0;
  try {
    resolve(e);
  } catch (IllegalConfig const& error) {
    point.skipped += fmt::format("{}{}", point.skipped.empty() ? "" : "; ", error.what());
  }
  e.ranks = used;
}

}  // namespace

std::vector<SweepPoint> sweep_points(Arguments const& arguments) {
  SweepSpec spec;
  if (arguments.has("spec")) spec = read_sweep_spec(arguments.option("spec"));
  for (auto const& [flag, text] : arguments.fields) override_flag(spec, flag, text);
  std::vector<SweepPoint> points;
  for (Experiment& e : expand(spec.base, spec.lists)) {
    SweepPoint point;
    point.experiment = std::move(e);
    if (!point.experiment.strategy.empty()) static_cast<void>(read_strategy(point.experiment.strategy));
    point.name = name_of(point.experiment, spec.lists);
    judge(point);
    point.command = start_row(point.experiment, Source::measured).command;
    points.push_back(std::move(point));
  }
  return points;
}

std::string line_of_point(std::size_t index, Experiment const& e) {
  Experiment const defaults;
  std::string line = std::to_string(index);
  for (Knob const& knob : knobs()) {
    std::string const text = knob.get(e);
    if (text != knob.get(defaults) || e.given.contains(knob.flag))
      line += fmt::format("{}{}={}", separator, knob.flag, text);
  }
  return line;
}

std::pair<std::size_t, Experiment> point_of_line(std::string const& line) {
  std::pair<std::size_t, Experiment> point;
  std::vector<std::string> const items = split_at(line, separator);
  point.first = parse_integer("points", items.front(), 0, std::int64_t{1} << 40);
  for (std::string const& item : std::span(items).subspan(1)) {
    std::size_t const equals = item.find('=');
    if (equals == item.npos) throw InputError(fmt::format("--points: {} has no '='", in_quotes(item)));
    set_field(point.second, item.substr(0, equals), item.substr(equals + 1));
  }
  resolve(point.second);
  return point;
}

}  // namespace shardbench
