#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardbench {

/// A command line, taken apart but not yet understood.
struct Arguments {
  std::string command;
  std::vector<std::pair<std::string, std::string>> fields;  ///< experiment flags and their text, in order as given
  std::map<std::string, std::string, std::less<>> options;  ///< the command's own options; a switch has the text "true"
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  ///< of the options that take several values
  std::vector<std::string> mpirun_arguments;                           ///< of --mpirun-arg, in order
  std::vector<std::string> files;                                      ///< positional
  std::vector<std::string> words;  ///< everything after the program's name, as given

  bool has(std::string_view option) const { return options.find(option) != options.end(); }
  /// The option's text, empty when it was not given.
  std::string option(std::string_view name) const {
    auto const found = options.find(name);
    return found == options.end() ? std::string() : found->second;
  }
};

/// An option that belongs to commands, not to the experiment.
struct OptionInfo {
  std::string_view name, allowed, help;
  bool is_switch = false;
  bool takes_several = false;  ///< values up to the next flag, kept in Arguments::lists
  std::string_view id = {};    ///< how commands name it where another option has its name

  std::string_view key() const { return id.empty() ? name : id; }
};

/// A command of the program.
struct CommandInfo {
  std::string_view name, summary, example;
  int (*run)(Arguments const& arguments);
  std::vector<std::string_view> fields = {};   ///< flags of knobs that it takes; "*" for all
  std::vector<std::string_view> options = {};  ///< of option_table()
  std::vector<std::string_view> files = {};    ///< names of its positional arguments, all needed
  bool hidden = false;
};

std::span<CommandInfo const> command_table();
std::span<OptionInfo const> option_table();
/// Throws InputError naming the commands.
CommandInfo const& find_command(std::string_view name);

}  // namespace shardbench
