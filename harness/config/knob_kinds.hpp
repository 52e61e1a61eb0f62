#pragma once
// The kinds of knobs: how the text of a flag becomes the value of a member, and back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/config/field_text.hpp"
#include "harness/config/knob.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench::knob_kinds {

/// `access(e)` is the member, of an experiment that is const or not.
template <class Access>
Knob integer(std::string flag, std::string help, std::int64_t min, std::int64_t max, Access access) {
  auto set = [=](Experiment& e, std::string_view text) {
    auto& target = access(e);
    target = static_cast<std::remove_reference_t<decltype(target)>>(parse_integer(flag, text, min, max));
  };
  auto get = [=](Experiment const& e) { return fmt::format("{}", access(e)); };
  return {flag, integer_range_text(min, max), std::move(help), CellKind::number, set, get};
}

template <class Access>
Knob number(std::string flag, std::string help, double min, double max, Access access) {
  auto set = [=](Experiment& e, std::string_view text) { access(e) = parse_number(flag, text, min, max); };
  auto get = [=](Experiment const& e) { return number_text(access(e)); };
  Knob knob{flag, number_range_text(min, max), std::move(help), CellKind::number, set, get};
  knob.column.cell = [=](Experiment const& e) { return cell_text::text(access(e)); };
  return knob;
}

template <class Access>
Knob toggle(std::string flag, std::string help, Access access) {
  auto set = [=](Experiment& e, std::string_view text) { access(e) = parse_switch(flag, text); };
  auto get = [=](Experiment const& e) { return cell_text::text(access(e)); };
  return {flag, "true or false", std::move(help), CellKind::flag, set, get};
}

template <class Access>
Knob path(std::string flag, std::string allowed, std::string help, Access access) {
  auto set = [=](Experiment& e, std::string_view text) {
    bool const printable = text.find_first_of(std::string_view("\0\n\r", 3)) == text.npos;
    if (text.empty() || !printable || text.size() > 4096)
      throw InputError(fmt::format("--{}: {} is not a {}", flag, in_quotes(text), allowed));
    access(e) = text;
  };
  return {flag, allowed, std::move(help), CellKind::text, set, access};
}

/// One of these values, by the names that `name_of` gives them.
template <class Values, class Access, class NameOf>
Knob one_of(std::string flag, std::string help, Values values, Access access, NameOf name_of) {
  std::vector<std::string> names;
  for (auto const& value : values) names.emplace_back(name_of(value));
  std::string const allowed = fmt::format("{}", fmt::join(names, "|"));
  auto set = [=](Experiment& e, std::string_view text) {
    auto const found = std::ranges::find(names, text);
    if (found == names.end())
      throw InputError(fmt::format("--{}: {} is not one of {}", flag, in_quotes(text), allowed));
    access(e) = values[found - names.begin()];
  };
  auto get = [=](Experiment const& e) { return std::string(name_of(access(e))); };
  return {flag, allowed, std::move(help), CellKind::text, set, get};
}

/// Some values of an enumeration.
template <class Value, class Access>
Knob choice(std::string flag, std::string help, std::vector<Value> values, Access access) {
  return one_of(std::move(flag), std::move(help), values, access, [](Value value) { return to_string(value); });
}

/// All of an enumeration.
template <class Access>
Knob choice(std::string flag, std::string help, Access access) {
  using Enum = std::remove_cvref_t<decltype(access(std::declval<Experiment&>()))>;
  auto const values = enum_values<Enum>();
  return choice(std::move(flag), std::move(help), std::vector<Enum>(values.begin(), values.end()), access);
}

/// One of the given words, or "auto".
template <class Access>
Knob word(std::string flag, std::string help, std::vector<std::string> words, Access access) {
  words.insert(words.begin(), "auto");
  return one_of(std::move(flag), std::move(help), words, access, [](std::string const& text) { return text; });
}

}  // namespace shardbench::knob_kinds
