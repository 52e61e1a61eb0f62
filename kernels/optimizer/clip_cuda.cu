#include "kernels/core/cuda/launch.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/optimizer/clip_math.hpp"

namespace shardbench::cuda {
namespace {

__global__ void clip_factor_kernel(float const* squares, float* factor, float max_norm) {
  if (threadIdx.x == 0) *factor = clip_factor_of(*squares, max_norm);
}

}  // namespace

void clip_factor(Stream& stream, ClipFactorArgs const& args) {
  declare_access(stream.native(), {reads(args.squares, sizeof(float)), writes(args.factor, sizeof(float))});
  launch(clip_factor_kernel, dim3(1), warp_threads, cuda_stream(stream), args.squares, args.factor, args.max_norm);
}

}  // namespace shardbench::cuda
