#pragma once
// Steers the emulated GPU from tests. Each setting has an environment variable too, read at start, for whole programs.
#include <cstddef>
#include <string>
#include <vector>

namespace emulation {

enum class Fault { allocation, launch, matmul, nccl_error, nccl_hang, size_ };

/// The nth call of that kind from now fails, once (1 is the next; 0 disarms). SHARDBENCH_EMU_FAULT=kind:n
void inject_fault(Fault fault, int nth);

/// The nth event wait from now gives no order in the eyes of the checker (1 is the next; 0 disarms).
/// SHARDBENCH_EMU_DROP_WAIT=n
void drop_wait(int nth);

/// Event waits issued since the process started.
int waits_issued();

/// How often profiling was started, and whether it is on.
int profiled_ranges();
bool profiling();

/// Before each op a stream sleeps at random (0: never). SHARDBENCH_EMU_DELAY_SEED
void set_delay_seed(unsigned seed);

/// Pairs of ops that touch one buffer without an order between them, found since the last call; the list is emptied.
/// With SHARDBENCH_EMU_RACES=abort the first one ends the process with its message instead.
std::vector<std::string> take_races();

/// Writes outside an allocation, found by looking at the guard bytes around each; empty when there are none.
std::vector<std::string> find_overruns();

/// Lets fills and products take any host memory as device memory, as a GPU with unified memory would.
void accept_host_memory(bool accept);

/// Allocations not freed.
std::size_t live_allocations();

}  // namespace emulation
