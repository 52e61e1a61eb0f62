// The only file that includes CLI11.
#include "bench/shardbench/cli/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <list>
#include <set>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/knob.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr int most_values = 4096;
constexpr char const* experiment_group = "Model and configuration";

bool takes(CommandInfo const& command, std::string_view field) {
  return std::ranges::any_of(command.fields, [&](std::string_view f) { return f == "*" || f == field; });
}

bool takes_option(CommandInfo const& command, OptionInfo const& option) {
  return std::ranges::find(command.options, option.key()) != command.options.end();
}

/// Declares the command's flags; CLI11 collects their text, set_field and the command give it meaning.
class Declaration {
 public:
  Declaration(CLI::App& app, CommandInfo const& command) : command_(command) {
    sub_ = app.add_subcommand(std::string(command.name), std::string(command.summary));
    sub_->allow_extras();
    if (command.hidden) sub_->group("");
    if (!command.example.empty()) sub_->footer(fmt::format("Example:\n  {}", command.example));
    for (Knob const& knob : knobs())
      if (takes(command, knob.flag)) add(knob.flag, knob.allowed, knob.help, knob.is_switch(), experiment_group);
    for (OptionInfo const& option : option_table())
      if (takes_option(command, option))
        add(option.name, option.allowed, option.help, option.is_switch, "Options", option.takes_several);
    for (std::string_view const file : command.files)
      if (file.ends_with("..."))
        sub_->add_option(std::string(file.substr(0, file.size() - 3)), several_files_, "")
            ->required()
            ->expected(1, most_values)
            ->type_name("FILE...");
      else
        sub_->add_option(std::string(file), files_.emplace_back(), "")->required()->type_name("FILE");
  }

  /// A flag is given once: of two values one would be dropped.
  void refuse_repeats(std::vector<std::string> const& words) const {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].starts_with("--")) continue;
      std::size_t const equals = words[i].find('=');
      std::string const name = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
      bool const takes_value = std::ranges::find(names_, name) != names_.end();
      if (!takes_value && std::ranges::find(switches_, name) == switches_.end()) continue;
      if (std::ranges::find(repeatable_, name) == repeatable_.end() && !seen.insert(name).second)
        throw InputError(fmt::format("--{}: given twice; a flag is given once", name));
      if (takes_value && equals == std::string::npos) ++i;
    }
  }

  /// What was given, where the command is this one.
  void read(Arguments& out) const {
    if (!sub_->parsed()) return;
    refuse_extras();
    out.command = command_.name;
    out.files.assign(files_.begin(), files_.end());
    out.files.insert(out.files.end(), several_files_.begin(), several_files_.end());
    for (CLI::Option const* const option : sub_->parse_order()) {
      std::string const name = option->get_name(false, false).substr(option->get_positional() ? 0 : 2);
      bool const is_switch = option->get_expected_max() == 0;
      std::string const text = option->results().front();
      if (name == "mpirun-arg") {
        out.mpirun_arguments = option->results();
      } else if (option->get_expected_max() > 1 && !option->get_positional()) {
        out.lists[name] = option->results();
      } else if (option->get_group() == experiment_group) {
        out.fields.emplace_back(name, text);  // a switch's is "true" unless it says another
      } else if (!option->get_positional()) {
        if (!is_switch && text.empty())
          throw InputError(fmt::format("--{}: '' is empty; allowed: {}", name, option->get_type_name()));
        if (!is_switch && text == "-") refuse_dash(name, option->get_type_name());
        out.options[name] = is_switch ? "true" : text;
      }
    }
  }

 private:
  void add(std::string_view name, std::string_view allowed, std::string_view help, bool is_switch, char const* group,
           bool takes_several = false) {
    std::string const flag = fmt::format("--{}", name), text(help);
    CLI::Option* const option = is_switch ? sub_->add_flag(flag, text) : sub_->add_option(flag, text);
    option->group(group);
    if (name == "mpirun-arg" || takes_several) repeatable_.emplace_back(name);
    if (is_switch) {
      switches_.emplace_back(name);
      return;
    }
    option->type_name(std::string(allowed));
    if (name == "mpirun-arg")
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    if (takes_several) option->expected(1, most_values);
    names_.emplace_back(name);
  }

  /// Elsewhere "-" is standard output; here a flag says what goes there, and no file is to get that name by accident.
  [[noreturn]] void refuse_dash(std::string const& name, std::string const& allowed) const {
    bool const prints = std::ranges::find(switches_, "json") != switches_.end();
    throw InputError(fmt::format("--{}: '-' is not the name of a file; allowed: {}{}", name, allowed,
                                 prints ? " (--json prints on standard output)" : ""));
  }

  void refuse_extras() const {
    std::vector<std::string> const extras = sub_->remaining();
    if (extras.empty()) return;
    std::string const& word = extras.front();
    if (!word.starts_with("-"))
      throw InputError(fmt::format("{}: unexpected argument {}", command_.name, in_quotes(word)));
    std::string const text = word.substr(0, word.find('='));
    std::string const name = text.substr(std::min(text.find_first_not_of('-'), text.size()));
    std::vector<std::string> all = names_;
    all.insert(all.end(), switches_.begin(), switches_.end());
    std::string const near = nearest_name(name, all), others = commands_with(name);
    throw InputError(fmt::format("{}: unknown flag for '{}'{}; `shardbench {} --help` lists them", printable(text),
                                 command_.name,
                                 !others.empty() ? fmt::format(" (a flag of {})", others)
                                 : near.empty()  ? ""
                                                 : fmt::format(", did you mean --{}?", near),
                                 command_.name));
  }

  /// The commands that take the flag.
  static std::string commands_with(std::string const& flag) {
    std::string text;
    bool const knob = std::ranges::find(knobs(), flag, &Knob::flag) != knobs().end();
    for (CommandInfo const& command : command_table()) {
      bool const option = std::ranges::any_of(
          option_table(), [&](OptionInfo const& o) { return o.name == flag && takes_option(command, o); });
      if (!command.hidden && ((knob && takes(command, flag)) || option))
        text += fmt::format("{}{}", text.empty() ? "" : ", ", command.name);
    }
    return text;
  }

  CommandInfo const& command_;
  CLI::App* sub_ = nullptr;
  std::list<std::string> files_;
  std::vector<std::string> several_files_;
  std::vector<std::string> names_, switches_, repeatable_;
};

}  // namespace

CommandLine parse_command_line(int argc, char const* const* argv) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) line.arguments.words.emplace_back(argv[i]);
  CLI::App app("shardbench: how should this transformer be cut over these machines?", "shardbench");
  app.footer(
      "Each command's --help has an example. Exit codes: 0 all passed or skipped, 1 a row did not pass, 2 bad input.");
  app.require_subcommand(1);
  std::string const first = line.arguments.words.empty() ? std::string() : line.arguments.words.front();
  if (first.empty()) throw InputError(fmt::format("no command given; `shardbench --help` lists them"));
  if (!first.starts_with("-")) static_cast<void>(find_command(first));
  std::list<Declaration> declared;
  for (CommandInfo const& command : command_table())
    if (first == command.name || (first.starts_with("-") && !command.hidden)) declared.emplace_back(app, command);
  if (!first.starts_with("-")) declared.front().refuse_repeats(line.arguments.words);
  try {
    app.parse(argc, argv);
  } catch (CLI::CallForHelp const&) {
    line.help = app.help();
    return line;
  } catch (CLI::ArgumentMismatch const& error) {
    std::string const what = one_line(error.what());  // repeats are refused before: a value is missing
    throw InputError(fmt::format("{}: no value given", what.substr(0, what.find(':'))));
  } catch (CLI::ParseError const& error) {
    throw InputError(one_line(error.what()));
  }
  for (Declaration const& declaration : declared) declaration.read(line.arguments);
  return line;
}

}  // namespace shardbench
