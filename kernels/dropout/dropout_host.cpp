#include "kernels/core/storage.hpp"
#include "kernels/dropout/dropout_math.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

template <class T, class Drops>
void run_rows(DropoutArgs const& args, Drops) {
  DropoutMask const mask = dropout_mask(args);
  auto const* const bias = static_cast<T const*>(args.bias);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    auto const* const x = static_cast<T const*>(args.x) + row * args.cols;
    auto const* const residual = static_cast<T const*>(args.residual) + (args.residual ? row * args.cols : 0);
    auto* const out = static_cast<T*>(args.out) + row * args.cols;
    std::uint64_t const first = Drops::value ? mask.first_of(row) : 0;
#pragma omp simd
    for (std::int64_t col = 0; col < args.cols; ++col) {
      float value = to_float(x[col]);
      if (bias) value += to_float(bias[col]);
      if constexpr (Drops::value) value = mask.apply(value, first + static_cast<std::uint64_t>(col));
      if (args.residual) value += to_float(residual[col]);
      out[col] = from_float<T>(value);
    }
  }
}

}  // namespace

void dropout(DropoutArgs const& args) {
  with_storage(args.dtype, "dropout",
               [&]<class T>(T) { with_flag(args.rate > 0, [&](auto drops) { run_rows<T>(args, drops); }); });
}

}  // namespace shardbench::host
