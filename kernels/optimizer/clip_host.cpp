#include "kernels/kernel_set_host.hpp"
#include "kernels/optimizer/clip_math.hpp"

namespace shardbench::host {

void clip_factor(ClipFactorArgs const& args) { *args.factor = clip_factor_of(*args.squares, args.max_norm); }

}  // namespace shardbench::host
