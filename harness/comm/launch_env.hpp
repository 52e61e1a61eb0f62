#pragma once
#include <functional>
#include <optional>
#include <string>

namespace shardbench {

/// Looks up an environment variable; nullptr when it is not set.
using Environment = std::function<char const*(char const* name)>;

/// The environment of this process.
char const* process_environment(char const* name);

/// True when an MPI launcher (Open MPI, MPICH, Intel MPI, PMIx, srun) started this process as part of a job. A shell
/// inside a Slurm allocation is not part of one: only a step of several tasks is.
bool launched_by_mpi(Environment const& environment = process_environment);

/// True when this process is part of a job: started by an MPI launcher, or told where to meet (rendezvous_of).
bool launched_as_job(Environment const& environment = process_environment);

/// This process among those of its machine: OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID or LOCAL_RANK,
/// else 0. Throws InputError when the variable holds no number.
int local_rank(Environment const& environment = process_environment);

/// Processes of the job on this machine: OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, SLURM_STEP_TASKS_PER_NODE or
/// LOCAL_WORLD_SIZE, else 1. Throws InputError when the variable cannot be read.
int local_size(Environment const& environment = process_environment);

/// Where the ranks of a job started without MPI meet: rank 0 listens there, the others come to it.
struct Rendezvous {
  int rank = 0;
  int size = 1;
  std::string address;  ///< host name or IP of rank 0's machine
  int port = 0;
  std::string secret{};   ///< SHARDBENCH_SECRET, the same on every rank; empty: none
  bool insecure = false;  ///< meets beyond this machine even without a secret
};

/// The meeting that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name, as torchrun and cluster operators set them;
/// nothing when one is not set. With SHARDBENCH_SECRET. The port after MASTER_PORT where torchrun's own store holds that one
/// (TORCHELASTIC_USE_AGENT_STORE=True). Throws InputError naming the variable that cannot be read.
std::optional<Rendezvous> rendezvous_of(Environment const& environment = process_environment);

}  // namespace shardbench
