#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "bench/shardbench/cli/commands.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/exec/devices.hpp"
#include "harness/record/environment_warnings.hpp"
#include "harness/record/fingerprint.hpp"
#include "harness/report/text.hpp"
#include "kernels/core/error.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench {
namespace {

using Lines = std::vector<std::string>;

void say(std::string_view what, std::string_view text) { fmt::print("{:<10}{}\n", what, text); }

void print_host(Fingerprint const& f) {
  auto const device = make_host_device();
  DeviceInfo const info = device->info();
  say("cpu", fmt::format("{}, {} cores usable{}", f.cpu_model, f.cores,
                         f.clock_mhz ? fmt::format(", {:.0f} MHz now", *f.clock_mhz) : ""));
  say("memory", fmt::format("{}, {} free", bytes_text(info.memory_bytes), bytes_text(info.free_memory_bytes)));
  say("compiler", f.compiler);
}

std::string blas_text() {
  try {
    return blas_description();
  } catch (std::exception const& error) {
    return fmt::format("MISSING: {}", one_line(error.what()));
  }
}

void print_mpi(Lines& wrong) {
  say("mpi", MpiProcess::library_version());
  try {
    MpiProcess const mpi(nullptr, nullptr);
    say("threads", "MPI_THREAD_MULTIPLE: communication can overlap");
  } catch (std::exception const& error) {
    say("threads", "MISSING: MPI_THREAD_MULTIPLE");
    wrong.push_back(one_line(error.what()));
  }
  auto const aware = MpiProcess::cuda_aware();
  say("cuda mpi", fmt::format("{}; GPUs talk through NCCL, MPI only brings them together",
                              !aware   ? "MPI does not say whether it takes GPU memory"
                              : *aware ? "MPI takes GPU memory"
                                       : "MPI takes no GPU memory"));
  std::string const mpirun = find_program("mpirun"), srun = find_program("srun");
  say("launcher", mpirun.empty() ? "MISSING: no mpirun on PATH" : mpirun);
  if (mpirun.empty()) wrong.push_back("no mpirun on PATH: only --ranks 1 runs (scripts/setup.sh installs Open MPI)");
  if (!srun.empty()) say("slurm", srun);
  if (!mpirun.empty()) say("start", fmt::format("{}", fmt::join(launch_of(2, {}, {"run", "..."}).words, " ")));
}

void print_binding(int usable, Lines& wrong) {
  long const online = sysconf(_SC_NPROCESSORS_ONLN);
  say("binding", fmt::format("this process may use {} of {} cores; ranks are bound to none unless asked (--mpirun-arg "
                             "--bind-to --mpirun-arg core)",
                             usable, online));
  if (usable > 0 && usable < online)
    wrong.push_back(fmt::format("this shell is bound to {} of {} cores, and so will be its ranks", usable, online));
}

std::string first_line_of(std::filesystem::path const& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void print_toolkit() {
  std::string nvcc = find_program("nvcc");
  for (std::string const& home :
       {std::string(std::getenv("CUDA_HOME") ? std::getenv("CUDA_HOME") : ""), std::string("/usr/local/cuda")})
    if (std::error_code none; nvcc.empty() && std::filesystem::exists(home + "/bin/nvcc", none))
      nvcc = home + "/bin/nvcc";
  say("toolkit", nvcc.empty() ? "none found; needed only to build the CUDA back end (scripts/setup.sh --cuda)" : nvcc);
  std::string const driver = first_line_of("/proc/driver/nvidia/version");
  say("driver", driver.empty() ? "no NVIDIA kernel module is loaded" : driver);
}

/// Returns the most NVLinks that a GPU has; -1 where nobody can tell.
int print_gpus(std::size_t count, Lines& wrong) {
  int most_links = -1;
  for (std::size_t i = 0; i < count; ++i) {
    auto const gpu = DeviceHandle::open(DeviceKind::cuda, static_cast<int>(i));
    DeviceInfo const info = gpu.device().info();
    DeviceState const state = gpu.device().state();
    int const links = gpu.nvlinks();
    most_links = std::max(most_links, links);
    std::string text =
        fmt::format("{}, {}, {} free", info.name, bytes_text(info.memory_bytes), bytes_text(info.free_memory_bytes));
    if (state.clock_mhz) text += fmt::format(", {:.0f} MHz", *state.clock_mhz);
    if (state.power_w) text += fmt::format(", {:.0f} W", *state.power_w);
    text += links < 0 ? ", NVLink unknown (no NVML)" : fmt::format(", {} NVLinks up", links);
    say(fmt::format("gpu {}", i), text);
    if (state.throttled.value_or(false))
      wrong.push_back(fmt::format("GPU {} has its clock held down: {}", i, state.throttle_reasons));
    constexpr double spare = 0.1;
    if (info.free_memory_bytes < (1 - spare) * info.memory_bytes)
      wrong.push_back(
          fmt::format("GPU {} has {} in use by others", i, bytes_text(info.memory_bytes - info.free_memory_bytes)));
  }
  return most_links;
}

int print_cuda(Lines& wrong) {
  print_toolkit();
  try {
    std::vector<std::string> const gpus = visible_gpus(DeviceKind::cuda);
    say("cuda", DeviceHandle::open(DeviceKind::cuda, 0).versions());
    return print_gpus(gpus.size(), wrong);
  } catch (std::exception const& error) {
    say("cuda", one_line(error.what()));
  }
  return -1;
}

}  // namespace

int doctor_command(Arguments const&) {
  Fingerprint const f = take_fingerprint("", "");
  Lines wrong;
  print_host(f);
  say("blas", blas_text());
  print_mpi(wrong);
  print_binding(f.cores, wrong);
  int const links = print_cuda(wrong);
  if (f.variables.empty()) say("variables", "none in force that change speed");
  for (auto const& [name, value] : f.variables) say("variable", fmt::format("{}={}", name, value));
  say("commit", f.git_commit.empty() ? "unknown" : f.git_commit);
  for (std::string& warning : environment_warnings(f.variables, links)) wrong.push_back(std::move(warning));
  for (std::string const& line : wrong) say("WRONG", line);
  if (wrong.empty()) say("verdict", "nothing wrong was found");
  return 0;
}

}  // namespace shardbench
