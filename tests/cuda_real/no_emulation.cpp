// What tests ask of the emulated GPU, answered by a real one: no faults, no delays, and nobody looks for races.
#include "emulation.hpp"

namespace emulation {

void inject_fault(Fault, int) {}
void drop_wait(int) {}
int waits_issued() { return 0; }
int profiled_ranges() { return 0; }
bool profiling() { return false; }
void set_delay_seed(unsigned) {}
std::vector<std::string> take_races() { return {}; }
std::vector<std::string> find_overruns() { return {}; }
void accept_host_memory(bool) {}
std::size_t live_allocations() { return 0; }

}  // namespace emulation
