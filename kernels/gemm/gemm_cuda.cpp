#include "kernels/gemm/group_math.hpp"
#include "kernels/gemm/matmul_cuda.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {

void gemm(Stream& stream, GemmArgs const& args) {
  if (args.m == 0 || args.n == 0) return;
  CudaStream& queue = cuda_stream(stream);
  bool const fp8 = is_fp8(args.input_dtype);
  bool const fused_bias = args.k > 0 && (fp8 || args.input_dtype == args.output_dtype);
  MatmulProblem problem{.a = {args.a, args.lda, 0, args.input_dtype, args.transpose_a},
                        .b = {args.b, args.ldb, 0, args.dtype_of_b(), args.transpose_b},
                        .c = {args.c, args.ldc, 0, args.output_dtype},
                        .m = args.m,
                        .n = args.n,
                        .k = args.k,
                        .beta = args.beta,
                        .bias = fused_bias ? args.bias : nullptr,
                        .scale_a = args.scale_a,
                        .scale_b = args.scale_b};
  if (args.k > 0) matmul(queue, problem);
  if (args.k > 0 && (fused_bias || !args.bias)) return;
  add_bias(queue, problem.c, args.m, args.n, args.k > 0 ? 1.0f : args.beta, args.bias,
           fp8 ? args.output_dtype : args.input_dtype);
}

void grouped_gemm(Stream& stream, GroupedGemmArgs const& args) {
  for (std::int64_t g = 0; g < args.groups; ++g) gemm(stream, group_product(args, g));
}

}  // namespace shardbench::cuda
