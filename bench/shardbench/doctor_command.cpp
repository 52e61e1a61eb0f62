#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "bench/shardbench/commands.hpp"
#include "bench/shardbench/launcher.hpp"
#include "bench/shardbench/text.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/record/fingerprint.hpp"
#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/error.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench {
namespace {

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

void print_mpi() {
  say("mpi", MpiProcess::library_version());
  try {
    MpiProcess const mpi(nullptr, nullptr);
    say("threads", "MPI_THREAD_MULTIPLE: communication can overlap");
  } catch (std::exception const& error) {
    say("threads", fmt::format("MISSING: {}", one_line(error.what())));
  }
  std::string const mpirun = find_program("mpirun"), srun = find_program("srun");
  say("launcher",
      mpirun.empty() ? "MISSING: no mpirun on PATH; only --ranks 1 runs (scripts/setup.sh installs Open MPI)" : mpirun);
  if (!srun.empty()) say("slurm", srun);
  if (!mpirun.empty()) say("start", fmt::format("{}", fmt::join(launch_of(2, {}, {"run", "..."}).words, " ")));
  say("binding", "none by default: ranks move between cores; --mpirun-arg --bind-to --mpirun-arg core binds them");
}

void print_cuda() {
  namespace fs = std::filesystem;
  fs::path const plugin = fs::path(own_path()).parent_path() / "libshardbench_cuda.so";
  std::error_code ignored;
  if (!fs::exists(plugin, ignored)) {
    say("cuda",
        fmt::format("not there: {} was not built (scripts/build.sh -DSHARDBENCH_CUDA=ON needs the CUDA toolkit)",
                    plugin.string()));
    return;
  }
  void* const library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    say("cuda", fmt::format("MISSING: the plugin cannot be opened: {}", dlerror()));
    return;
  }
  auto const versions = reinterpret_cast<CudaVersionsFunction>(dlsym(library, "shardbench_cuda_versions"));
  auto const make_device = reinterpret_cast<MakeDeviceFunction>(dlsym(library, "shardbench_make_device"));
  if (!versions || !make_device) {
    say("cuda", "MISSING: the plugin is of another version than this program");
    return;
  }
  char error[512] = "";
  std::unique_ptr<Device> const device(make_device(0, error, sizeof error));
  say("cuda", versions());
  say("gpu 0", device ? device->info().name : fmt::format("MISSING: {}", error));
}

}  // namespace

int doctor_command(Arguments const&) {
  Fingerprint const f = take_fingerprint("", "");
  print_host(f);
  say("blas", blas_text());
  print_mpi();
  print_cuda();
  say("variables", f.variables.empty() ? "none in force that change speed" : f.variables_text());
  say("commit", f.git_commit.empty() ? "unknown" : f.git_commit);
  return 0;
}

}  // namespace shardbench
