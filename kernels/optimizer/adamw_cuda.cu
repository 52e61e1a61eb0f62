#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/optimizer/adamw_math.hpp"

namespace shardbench::cuda {
namespace {

/// `master` is read and written where there is one; the parameter is then only written.
template <class P, class G>
struct AdamW {
  P* parameter;
  float *master, *exp_avg, *exp_avg_sq;
  G const* gradient;
  float const* gradient_scale;
  AdamWFactors factors;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float value[width], average[width], square[width], slope[width];
    if (master) {
      load<width>(master + i, value);
    } else {
      load<width>(parameter + i, value);
    }
    load<width>(exp_avg + i, average);
    load<width>(exp_avg_sq + i, square);
    load<width>(gradient + i, slope);
    float const scale = gradient_scale ? *gradient_scale : 1.0f;
    for (int j = 0; j < width; ++j) value[j] = adamw_update(factors, value[j], scale * slope[j], average[j], square[j]);
    store<width>(exp_avg + i, average);
    store<width>(exp_avg_sq + i, square);
    if (master) store<width>(master + i, value);
    store<width>(parameter + i, value);
  }
};

}  // namespace

void adamw(Stream& stream, AdamWArgs const& args) {
  VALIDATE(args.step >= 1, "AdamW step " + std::to_string(args.step) + " (the first update is step 1)");
  std::size_t const count = args.count;
  declare_access(
      stream.native(),
      {writes(args.parameter, count * bytes_of(args.parameter_dtype)), writes(args.master, count * sizeof(float)),
       writes(args.exp_avg, count * sizeof(float)), writes(args.exp_avg_sq, count * sizeof(float)),
       reads(args.gradient, count * bytes_of(args.gradient_dtype)), reads(args.gradient_scale, sizeof(float))});
  bool const wide = all_aligned(args.parameter, args.master, args.exp_avg, args.exp_avg_sq, args.gradient);
  with_float_type(args.parameter_dtype, [&](auto parameter) {
    with_float_type(args.gradient_dtype, [&](auto gradient) {
      using P = decltype(parameter);
      using G = decltype(gradient);
      AdamW<P, G> const body{
          static_cast<P*>(args.parameter),      args.master,         args.exp_avg,       args.exp_avg_sq,
          static_cast<G const*>(args.gradient), args.gradient_scale, adamw_factors(args)};
      for_each<pack_width<Bf16>>(body, args.count, wide, cuda_stream(stream));
    });
  });
}

}  // namespace shardbench::cuda
