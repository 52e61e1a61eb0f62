// Times that many configurations are told to take, each lowered once for all its stacks: bench_steps < requests. A line:
//   SYSTEM STACK[,STACK...] FLAG=VALUE...
// SYSTEM and STACK are names or files, flags those of `shardbench simulate` without dashes. Answers, a line each, with
// the bytes needed by the first stack and those there are, and for each stack the milliseconds of the step and of its
// optimizer; or with "!" and why the configuration has no step.
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "harness/simulate/predict.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Words = std::vector<std::string>;

template <class Profile>
Profile const& loaded(std::string const& name, Profile (*load)(std::string_view)) {
  static std::map<std::string, Profile> profiles;
  auto const found = profiles.find(name);
  return found != profiles.end() ? found->second : profiles.emplace(name, load(name)).first->second;
}

Experiment experiment_of(Words const& words) {
  Experiment e;
  for (std::size_t i = 2; i < words.size(); ++i) {
    auto const cut = words[i].find('=');
    if (cut == std::string::npos) throw InputError("'" + words[i] + "' is no FLAG=VALUE");
    set_field(e, words[i].substr(0, cut), words[i].substr(cut + 1));
  }
  resolve(e);
  return e;
}

std::string answer(Words const& words) {
  if (words.size() < 3) throw InputError("a line is SYSTEM STACK[,STACK...] FLAG=VALUE...");
  SystemProfile const& system = loaded(words[0], load_system);
  LoweredStep const step = lower_step(experiment_of(words));
  std::ostringstream text;
  text.precision(9);
  for (std::string const& name : split_list("stack", words[1])) {
    CostModel const model(system, loaded(name, load_stack));
    Prediction const p = predict_step(step, model, {.record_spans = false});
    if (text.str().empty()) {
      MemoryFit const fit = memory_fit(p.stages, system, model.stack());
      text << fit.needed_bytes << ' ' << fit.capacity_bytes;
    }
    text << ' ' << p.step_ms << ' ' << p.optimizer_ms;
  }
  return text.str();
}

}  // namespace
}  // namespace shardbench

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream stream(line);
    shardbench::Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    std::string text;
    try {
      text = shardbench::answer(words);
    } catch (shardbench::InputError const& error) {
      text = std::string("! ") + error.what();
    }
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
}
