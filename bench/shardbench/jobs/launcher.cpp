#include "bench/shardbench/jobs/launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "harness/comm/communicator.hpp"
#include "harness/comm/launch_env.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::string own_path() {
  char path[PATH_MAX] = "";
  auto const length = readlink("/proc/self/exe", path, sizeof path - 1);
  VALIDATE(length > 0, "the path of this program cannot be read (/proc/self/exe)");
  return std::string(path, length);
}

std::string find_program(std::string const& name) {
  char const* const path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    auto const colon = rest.find(':');
    std::string const candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate)) return candidate;
    rest = colon == rest.npos ? std::string_view() : rest.substr(colon + 1);
  }
  return {};
}

bool speaks_for_job() {
  for (char const* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (char const* const rank = std::getenv(name)) return std::string_view(rank) == "0";
  try {
    auto const meeting = rendezvous_of();
    return !meeting || meeting->rank == 0;
  } catch (InputError const&) {
    return true;  // a rank that cannot be placed speaks for itself
  }
}

Launch launch_of(std::int64_t ranks, std::vector<std::string> const& mpirun_arguments,
                 std::vector<std::string> const& words) {
  Launch launch;
  launch.variables = {{"OPENBLAS_NUM_THREADS", "1"}};
  if (ranks > 1) {
    std::string const mpirun = find_program("mpirun");
    if (mpirun.empty())
      throw InputError(
          fmt::format("--ranks: {} given, and there is no mpirun on PATH to start them (scripts/setup.sh installs one; "
                      "allowed without: 1)",
                      ranks));
    launch.words = {mpirun};
    if (MpiProcess::library_version().starts_with("Open MPI")) {
      launch.variables.insert(launch.variables.end(),
                              {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
      // Shared memory only, which also starts faster. Each rank has communication threads besides its own, so threads
      // outnumber cores even when ranks do not: those that wait give way.
      for (char const* word :
           {"--quiet", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "vader,self",
            "--mca", "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1"})
        launch.words.emplace_back(word);
    }
    launch.words.insert(launch.words.end(), mpirun_arguments.begin(), mpirun_arguments.end());
    launch.words.insert(launch.words.end(), {"-np", std::to_string(ranks)});
  }
  launch.words.push_back(own_path());
  launch.words.insert(launch.words.end(), words.begin(), words.end());
  return launch;
}

void become(Launch const& launch) {
  for (auto const& [name, value] : launch.variables) setenv(name.c_str(), value.c_str(), 0);
  std::vector<char*> words;
  for (std::string const& word : launch.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv(words.front(), words.data());
  throw Error(fmt::format("{} cannot be started ({})", launch.words.front(), std::strerror(errno)));
}

}  // namespace shardbench
