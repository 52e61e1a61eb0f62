#include <algorithm>
#include <cmath>

#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {

void clip_factor(ClipFactorArgs const& args) {
  double const norm = std::sqrt(static_cast<double>(*args.squares));
  *args.factor = static_cast<float>(std::min(1.0, static_cast<double>(args.max_norm) / (norm + 1e-6)));
}

}  // namespace shardbench::reference
