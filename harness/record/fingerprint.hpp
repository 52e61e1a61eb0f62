#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardbench {

/// Where and with what a measurement was made: the columns that let a reader judge it. Unknown parts are empty.
struct Fingerprint {
  std::string host;
  std::string cpu_model;
  int cores = 0;  ///< cores this process may run on (affinity), not those of the machine
  std::optional<double>
      clock_mhz;           ///< mean over the cores, at the time of asking; empty where the kernel does not tell
  std::string compiler;    ///< "g++ 12.2.0"
  std::string blas;        ///< as passed in, such as "OpenBLAS Zen"
  std::string mpi;         ///< as passed in
  std::string git_commit;  ///< of the source tree this binary was built from, when it is still there
  std::string time_utc;    ///< ISO 8601, "2024-05-01T12:00:00Z"
  /// Variables in force that change speed (NCCL_*, OMP_*, OPENBLAS_*, ...), sorted by name.
  std::vector<std::pair<std::string, std::string>> variables;
  /// "compiler; BLAS; MPI" for the versions column.
  std::string versions() const;
  /// "NAME=value NAME=value", for the comm_options column and logs.
  std::string variables_text() const;
};

/// Asks the machine; never throws for something it cannot learn.
Fingerprint take_fingerprint(std::string_view blas, std::string_view mpi);

/// The checked-out commit of a working tree (branches, packed references and worktrees are followed); empty when there
/// is none.
std::string read_git_commit(std::filesystem::path const& tree);

}  // namespace shardbench
