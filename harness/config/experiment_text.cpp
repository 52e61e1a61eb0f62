#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/knob.hpp"

namespace shardbench {
namespace {

bool is_plain(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@";
  return !text.empty() && text.find_first_not_of(safe) == text.npos;
}

/// As a POSIX shell takes it.
std::string shell_word(std::string const& text) {
  return is_plain(text) ? text : fmt::format("'{}'", fmt::join(split_at(text, '\''), "'\\''"));
}

/// Words as a POSIX shell reads what shell_word() wrote.
std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char const c = line[i];
    if (c == ' ' && !quoted) {
      open = false;
      continue;
    }
    if (!std::exchange(open, true)) words.emplace_back();
    if (c == '\'')
      quoted = !quoted;
    else if (c == '\\' && !quoted && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += c;
  }
  return words;
}

}  // namespace

Experiment experiment_of_command(std::string_view command) {
  Experiment e;
  std::vector<std::string> const words = shell_words(command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const knob = std::ranges::find_if(knobs(), [&](Knob const& k) { return words[i] == "--" + k.flag; });
    if (knob == knobs().end()) continue;
    if (knob->is_switch())
      set_field(e, knob->flag, "true");
    else if (i + 1 < words.size())
      set_field(e, knob->flag, words[++i]);
  }
  resolve(e);
  return e;
}

void set_field(Experiment& experiment, std::string_view flag, std::string_view value) {
  find_knob(flag).set(experiment, value);
  experiment.given.emplace(flag);
}

std::string field_text(Experiment const& experiment, std::string_view flag) { return find_knob(flag).get(experiment); }

std::string gpu_only_flag(Experiment const& e) {
  Experiment const defaults;
  for (Knob const& knob : knobs()) {
    if (!knob.only_gpu) continue;
    if (std::string const text = knob.get(e); text != knob.get(defaults))
      return fmt::format("--{} {}", knob.flag, text);
  }
  return {};
}

std::string command_flags(Experiment const& experiment) {
  Experiment const defaults;
  std::string result = "--model " + shell_word(experiment.model_name);
  for (Knob const& knob : knobs()) {
    std::string const text = knob.get(experiment);
    if (knob.flag == "model" || text == knob.get(defaults)) continue;
    result += fmt::format(" --{}", knob.flag);
    if (!knob.is_switch()) result += fmt::format(" {}", shell_word(text));
  }
  return result;
}

}  // namespace shardbench
