#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

std::byte* offset(void* base, Dtype dtype, std::int64_t elements) {
  return static_cast<std::byte*>(base) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}

std::byte const* offset(void const* base, Dtype dtype, std::int64_t elements) {
  return static_cast<std::byte const*>(base) + elements * static_cast<std::int64_t>(bytes_of(dtype));
}

}  // namespace

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
  for (std::int64_t g = 0; g < args.groups; ++g) {
    std::int64_t const first = args.offsets[g], rows = args.offsets[g + 1] - first;
    GemmArgs one;
    one.beta = args.beta;
    one.input_dtype = args.input_dtype;
    one.output_dtype = args.output_dtype;
    one.n = one.ldc = args.n;
    if (args.weight_gradient) {
      one.a = offset(args.a, args.input_dtype, first * args.m);
      one.b = offset(args.b, args.input_dtype, first * args.n);
      one.c = offset(args.c, args.output_dtype, g * args.m * args.n);
      one.m = one.lda = args.m;
      one.ldb = args.n;
      one.k = rows;
      one.transpose_a = true;
    } else {
      one.a = offset(args.a, args.input_dtype, first * args.k);
      one.b = offset(args.b, args.input_dtype, g * args.k * args.n);
      one.c = offset(args.c, args.output_dtype, first * args.n);
      one.m = rows;
      one.k = one.lda = args.k;
      one.ldb = args.transpose_b ? args.k : args.n;
      one.transpose_b = args.transpose_b;
    }
    gemm(one);
  }
}

}  // namespace shardbench::reference
