#include "bench/shardbench/commands.hpp"
namespace shardbench {
int worker_command(Arguments const&) { return 0; }
}
