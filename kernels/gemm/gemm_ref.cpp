#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
void gemm(GemmArgs const& args) {
  auto const a = [&](std::int64_t i, std::int64_t p) {
    return read_element(args.a, args.input_dtype, args.transpose_a ? p * args.lda + i : i * args.lda + p);
  };
  auto const b = [&](std::int64_t p, std::int64_t j) {
    return read_element(args.b, args.dtype_of_b(), args.transpose_b ? j * args.ldb + p : p * args.ldb + j);
  };
  double const scale = (args.scale_a ? static_cast<double>(*args.scale_a) : 1.0) *
                       (args.scale_b ? static_cast<double>(*args.scale_b) : 1.0);
  Dtype const bias_dtype = is_fp8(args.input_dtype) ? args.output_dtype : args.input_dtype;
  for (std::int64_t i = 0; i < args.m; ++i) {
    for (std::int64_t j = 0; j < args.n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < args.k; ++p) sum += a(i, p) * b(p, j);
      sum *= scale;
      if (args.bias != nullptr) sum += read_element(args.bias, bias_dtype, j);
      std::int64_t const at = i * args.ldc + j;
      if (args.beta != 0) sum += static_cast<double>(args.beta) * read_element(args.c, args.output_dtype, at);
      write_element(args.c, args.output_dtype, at, sum);
    }
  }
}

void grouped_gemm(GroupedGemmArgs const& args) {
  auto const a = [&](std::int64_t i) { return read_element(args.a, args.input_dtype, i); };
  auto const b = [&](std::int64_t i) { return read_element(args.b, args.input_dtype, i); };
  for (std::int64_t g = 0; g < args.groups; ++g) {
    std::int64_t const first = args.offsets[g], last = args.offsets[g + 1];
    std::int64_t const begin = args.weight_gradient ? g * args.m : first;
    std::int64_t const end = args.weight_gradient ? begin + args.m : last;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < args.n; ++j) {
        double sum = 0;
        if (args.weight_gradient)
          for (std::int64_t r = first; r < last; ++r) sum += a(r * args.m + i - begin) * b(r * args.n + j);
        else
          for (std::int64_t p = 0; p < args.k; ++p)
            sum += a(i * args.k + p) * b(g * args.k * args.n + (args.transpose_b ? j * args.k + p : p * args.n + j));
        std::int64_t const at = i * args.n + j;
        if (args.beta != 0) sum += static_cast<double>(args.beta) * read_element(args.c, args.output_dtype, at);
        write_element(args.c, args.output_dtype, at, sum);
      }
  }
}

}  // namespace shardbench::reference
