#include "bench/shardbench/commands.hpp"
namespace shardbench {
int sweep_command(Arguments const&) { return 0; }
}
