#pragma once
#include <string>

namespace shardbench {

/// Library, version and kernel family that host GEMMs run on ("OpenBLAS 0.3.21 SkylakeX"): a report column.
std::string blas_description();

namespace host {

/// Opens the BLAS, once: $SHARDBENCH_BLAS (a path or a library name) or the one found when this was built. It runs
/// one thread a rank unless OPENBLAS_NUM_THREADS, BLIS_NUM_THREADS or OMP_NUM_THREADS say otherwise. Not to be called
/// first while other threads use the environment.
void open_blas();

}  // namespace host
}  // namespace shardbench
