#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"
#include "kernels/optimizer/adamw_math.hpp"

namespace shardbench::host {
namespace {

template <class Parameter, class Gradient, class HasMaster>
void update(AdamWArgs const& args, HasMaster) {
  AdamWFactors const factors = adamw_factors(args);
  float const scale = args.gradient_scale != nullptr ? *args.gradient_scale : 1.0f;
  auto* const parameter = static_cast<Parameter*>(args.parameter);
  auto const* const gradient = static_cast<Gradient const*>(args.gradient);
  float* const master = args.master;
  float* const exp_avg = args.exp_avg;
  float* const exp_avg_sq = args.exp_avg_sq;
#pragma omp simd
  for (std::int64_t i = 0; i < args.count; ++i) {
    float average = exp_avg[i], square = exp_avg_sq[i];
    float const old_value = HasMaster::value ? master[i] : to_float(parameter[i]);
    float const value = adamw_update(factors, old_value, scale * to_float(gradient[i]), average, square);
    exp_avg[i] = average;
    exp_avg_sq[i] = square;
    if constexpr (HasMaster::value) master[i] = value;
    parameter[i] = from_float<Parameter>(value);
  }
}

}  // namespace

void adamw(AdamWArgs const& args) {
  VALIDATE(args.step >= 1, "AdamW step " + std::to_string(args.step) + " (the first update is step 1)");
  with_storage(args.parameter_dtype, "AdamW", [&]<class Parameter>(Parameter) {
    with_storage(args.gradient_dtype, "AdamW", [&]<class Gradient>(Gradient) {
      with_flag(args.master != nullptr, [&](auto has_master) { update<Parameter, Gradient>(args, has_master); });
    });
  });
}

}  // namespace shardbench::host
