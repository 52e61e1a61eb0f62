#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/cell_text.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// A line of `shardbench strategies`: what a value of the knob does, and where that comes from.
struct KnobSource {
  std::string name, usage;  ///< "ZeRO", "--zero 0|1|2|3"
  std::string_view what, source;
};

/// What a knob works on; without it the knob is played and changes nothing.
struct KnobNeed {
  std::string_view missing, needs;  ///< "tp 1", "tp >= 2"
  bool (*met)(Experiment const& e);
};

/// The column that shows a knob in a row; a knob that does not change what is run has none.
struct KnobColumn {
  std::string group, name, unit, description;  ///< group: "what" or "cut"
  std::function<std::string(Experiment const&)> cell;
};

/// One thing that can be asked of an experiment, with everything that depends on which one it is. The table of these,
/// knobs(), makes the command line, sweep files, --help, the columns of model and cut, notes and refusals.
struct Knob {
  std::string flag;     ///< "micro-batch"
  std::string allowed;  ///< the legal values in words: "integer >= 1"
  std::string help;     ///< one line
  CellKind kind = CellKind::text;
  std::function<void(Experiment&, std::string_view)> set;            ///< throws InputError
  std::function<std::string(Experiment const&)> get;                 ///< text that set() reads back to the same value
  std::function<std::string(Experiment const&)> contradiction = {};  ///< "mtp 0, ...; legal with ...", or empty
  KnobColumn column = {};
  KnobNeed const* need = nullptr;
  bool default_asks = false;  ///< the default, too, has no effect when given without what is needed
  std::vector<KnobSource> sources = {};
  bool only_runs = false;  ///< only an execution knows it: a prediction is of every value
  bool only_gpu = false;   ///< no CPU can honour it
  bool together = false;   ///< the ranks of a job honour it together, so one that is replayed alone cannot
  bool planned = false;    ///< `plan` tries its values, and --fix and --exclude limit them

  bool is_switch() const { return kind == CellKind::flag; }  ///< takes no value on the command line

  // The setters of a row, in the order of the members.
  /// Refused where it is given and `problem` says with what it does not go.
  Knob& never_with(std::function<std::string(Experiment const&)> problem) {
    return contradiction = std::move(problem), *this;
  }
  /// A column of the group "what".
  Knob& what(std::string_view name, std::string_view description, std::string_view unit = "");
  /// A column of the group "cut".
  Knob& cut(std::string_view name, std::string_view description, std::string_view unit = "");
  /// The column shows this and not the text of the flag.
  Knob& shown_as(std::function<std::string(Experiment const&)> cell) { return column.cell = std::move(cell), *this; }
  /// The column is empty elsewhere.
  Knob& shown_if(std::function<bool(Experiment const&)> holds);
  Knob& empty_at_zero();
  /// Noted where it is given and has no effect: another value than the default, or any value.
  Knob& needs(KnobNeed const& condition) { return need = &condition, *this; }
  Knob& needs_even_as_default(KnobNeed const& condition) { return default_asks = true, needs(condition); }
  Knob& from(KnobSource const& line) { return sources.push_back(line), *this; }
  Knob& from(std::vector<KnobSource> lines) { return sources = std::move(lines), *this; }
  Knob& of_runs() { return only_runs = true, *this; }
  Knob& of_gpus() { return only_gpu = true, of_runs(); }
  Knob& of_ranks_together() { return together = true, *this; }
  Knob& of_gpu_jobs() { return of_gpus().of_ranks_together(); }
  Knob& varied_by_plans() { return planned = true, *this; }
};

/// Every knob, in the order of --help.
std::span<Knob const> knobs();

/// Throws InputError that suggests a flag near to this one.
Knob const& find_knob(std::string_view flag);

/// The lines of `shardbench strategies`: each axis with its knobs.
std::vector<KnobSource> knob_sources();

}  // namespace shardbench
