#pragma once
// Only for the files that include mpi.h; does not include it itself.

namespace shardbench {

/// Throws Error with MPI's own words when `code` is not MPI_SUCCESS; `call` is the failed call's text.
void mpi_check(int code, char const* call, char const* file, int line);

}  // namespace shardbench

#define MPI_CHECK(call) ::shardbench::mpi_check((call), #call, __FILE__, __LINE__)
