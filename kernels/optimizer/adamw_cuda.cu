#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/optimizer/adamw_math.hpp"

namespace shardbench::cuda {
namespace {

/// `master` is read and written where there is one; the parameter is then only written.
template <class P, class G>
struct AdamW {
  AdamWArgs a;
  AdamWFactors factors;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float value[width], average[width], square[width], slope[width];
    if (a.master) {
      load<width>(a.master + i, value);
    } else {
      load<width>(as<P>(a.parameter) + i, value);
    }
    load<width>(a.exp_avg + i, average);
    load<width>(a.exp_avg_sq + i, square);
    load<width>(as<G>(a.gradient) + i, slope);
    float const scale = a.gradient_scale ? *a.gradient_scale : 1.0f;
    for (int j = 0; j < width; ++j) value[j] = adamw_update(factors, value[j], scale * slope[j], average[j], square[j]);
    store<width>(a.exp_avg + i, average);
    store<width>(a.exp_avg_sq + i, square);
    if (a.master) store<width>(a.master + i, value);
    store<width>(as<P>(a.parameter) + i, value);
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
      AdamW<decltype(parameter), decltype(gradient)> const body{args, adamw_factors(args)};
      for_each<pack_width<Bf16>>(body, args.count, wide, cuda_stream(stream));
    });
  });
}

}  // namespace shardbench::cuda
