#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/text_file.hpp"
#include "harness/config/yaml_value.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_spec_bytes = std::size_t{1} << 20;
constexpr std::size_t max_points = 100000;

/// Text of a scalar, checked by setting it on a scratch experiment; errors carry file and line.
class SpecReader {
 public:
  explicit SpecReader(std::string_view name) : name_(name) {}

  SweepSpec read(YAML::Node const& root) {
    if (!root.IsMap()) fail(root, "a sweep is a map of flags, such as \"tp: [1, 2]\"");
    std::set<std::string> seen;
    for (auto const& entry : root) read_entry(entry.first, entry.second, seen);
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(YAML::Node const& node, std::string_view problem) const {
    throw InputError(fmt::format("{}: {}", yaml_place(name_, node.Mark().line), problem));
  }

  void read_entry(YAML::Node const& key, YAML::Node const& value, std::set<std::string>& seen) {
    if (!key.IsScalar()) fail(key, "a key is not the name of a flag");
    std::string const flag = key.Scalar();
    if (!seen.insert(flag).second) fail(key, fmt::format("{} is given twice", in_quotes(flag)));
    if (value.IsScalar()) return set(spec_.base, flag, value, key);
    if (!value.IsSequence()) fail(key, fmt::format("{} is neither a value nor a list of values", in_quotes(flag)));
    if (value.size() == 0) fail(key, fmt::format("{} is an empty list", in_quotes(flag)));
    if (value.size() > max_points)
      fail(key, fmt::format("{} has {} values, at most {}", in_quotes(flag), value.size(), max_points));
    std::vector<std::string> texts;
    for (auto const& item : value) {
      if (!item.IsScalar()) fail(item, fmt::format("{} holds something that is not a plain value", in_quotes(flag)));
      Experiment scratch;
      set(scratch, flag, item, key);
      texts.push_back(item.Scalar());
    }
    spec_.lists.of.emplace_back(flag, std::move(texts));
  }

  void set(Experiment& target, std::string const& flag, YAML::Node const& value, YAML::Node const& key) const {
    try {
      set_field(target, flag, value.Scalar());
    } catch (InputError const& error) {
      fail(value.Mark().line < 0 ? key : value, error.what());
    }
  }

  std::string name_;
  SweepSpec spec_;
};

/// The same value twice would be the same point twice; 01 is 1.
void refuse_repeats(std::string const& flag, std::vector<std::string> const& values) {
  std::set<std::string> seen;
  for (std::string const& value : values) {
    Experiment scratch;
    set_field(scratch, flag, value);
    if (!seen.insert(field_text(scratch, flag)).second)
      throw InputError(fmt::format("--{}: {} is given twice; each value of a list once", flag, in_quotes(value)));
  }
}

}  // namespace

std::vector<std::string> split_list(std::string_view flag, std::string_view text) {
  std::vector<std::string> items = split_at(text, ',');
  if (std::ranges::any_of(items, &std::string::empty))
    throw InputError(fmt::format("--{}: {} has an empty item", flag, in_quotes(text)));
  return items;
}

std::vector<Experiment> expand(Experiment const& base, SweepLists const& lists) {
  std::size_t total = 1;
  for (auto const& [flag, values] : lists.of) {
    if (values.empty()) throw InputError(fmt::format("--{}: no value given", flag));
    refuse_repeats(flag, values);
    total *= values.size();
    if (total > max_points)
      throw InputError(fmt::format("--{}: the sweep grows to {} points, at most {}", flag, total, max_points));
  }
  std::vector<Experiment> points{base};
  for (auto const& [flag, values] : lists.of) {
    std::vector<Experiment> next;
    next.reserve(points.size() * values.size());
    for (Experiment const& point : points)
      for (std::string const& value : values) set_field(next.emplace_back(point), flag, value);
    points = std::move(next);
  }
  return points;
}

SweepSpec parse_sweep_spec(std::string_view yaml, std::string_view name) {
  if (yaml.size() > max_spec_bytes) throw InputError(fmt::format("{}: longer than {} bytes", name, max_spec_bytes));
  try {
    return SpecReader(name).read(YAML::Load(std::string(yaml)));
  } catch (YAML::Exception const& error) {
    throw InputError(fmt::format("{}: not YAML ({})", yaml_place(name, error.mark.line), in_quotes(error.msg)));
  }
}

SweepSpec read_sweep_spec(std::string const& path) {
  std::optional<std::string> const text = text_of_file(path, max_spec_bytes);
  if (!text) throw InputError(fmt::format("{}: cannot be read", path));
  return parse_sweep_spec(*text, path);
}

}  // namespace shardbench
