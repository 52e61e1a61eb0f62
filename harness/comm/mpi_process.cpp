#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <string>

#include "harness/comm/communicator.hpp"
#include "harness/comm/mpi_check.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

void mpi_check(int code, char const* call, char const* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_error(file, line, fmt::format("{} failed ({})", call, std::string_view(text, length)));
}

MpiProcess::MpiProcess(int* argc, char*** argv) {
  int started = 0;
  MPI_CHECK(MPI_Initialized(&started));
  VALIDATE(!started, "MPI is already started (one MpiProcess per process)");
  int provided = MPI_THREAD_SINGLE;
  MPI_CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));  // the default ends the job without a word
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw Error(
        fmt::format("{} gives thread level {}, and MPI_THREAD_MULTIPLE is needed: communication has its own threads",
                    library_version(), provided));
  }
}

MpiProcess::~MpiProcess() { MPI_Finalize(); }

std::string_view MpiProcess::library_version() {
  static std::string const version = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_CHECK(MPI_Get_library_version(text, &length));
    std::string_view const whole(text, length);
    return std::string(whole.substr(0, whole.find_first_of(",\n\r")));
  }();
  return version;
}

std::optional<bool> MpiProcess::cuda_aware() {
  // An extension of some MPIs, which has to be asked for by name.
  auto const query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query ? std::optional(query() == 1) : std::nullopt;
}

void MpiProcess::abort(int exit_code) {
  int started = 0;
  if (MPI_Initialized(&started) == MPI_SUCCESS && started) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace shardbench
