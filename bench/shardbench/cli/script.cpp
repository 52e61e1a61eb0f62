#include "bench/shardbench/cli/script.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

namespace fs = std::filesystem;

constexpr double most_seconds = 600;

}  // namespace

Script find_script(std::string const& name, std::string const& what) {
  std::string const python = find_program("python3");
  if (python.empty()) throw InputError(fmt::format("{}: python3 is missing", what));
  fs::path const installed = fs::path(own_path()).parent_path() / "../share/shardbench/scripts" / name;
  fs::path const source = fs::path(SHARDBENCH_SCRIPTS) / name;
  for (fs::path const& path : {installed, source})
    if (std::error_code ignored; fs::is_regular_file(path, ignored))
      return {python, fs::weakly_canonical(path).string()};
  throw InputError(fmt::format("{}: {} is missing; looked for {} and {}", what, name,
                               installed.lexically_normal().string(), source.string()));
}

std::string run_script(Script const& script, std::vector<std::string> const& words, std::string const& what) {
  Launch launch{{script.python, script.path}, {}};
  launch.words.insert(launch.words.end(), words.begin(), words.end());
  ChildJob job(launch);
  std::string line, text;
  while (job.next(most_seconds, line) == ChildJob::Event::line) text += line + "\n";
  std::string problem = job.problem();
  if (problem.empty()) return text;
  // What a script complains of begins with its name.
  std::string const name = fs::path(script.path).filename().string() + ": ";
  if (std::size_t const at = problem.find(name); at != std::string::npos) problem.erase(0, at + name.size());
  throw InputError(fmt::format("{}: {}", what, problem));
}

}  // namespace shardbench
