#pragma once
#include <cstddef>

#include "kernels/gemm/gemm.hpp"

namespace shardbench {

/// The product of group g as one GEMM.
inline GemmArgs group_product(GroupedGemmArgs const& args, std::int64_t g) {
  std::int64_t const first = args.offsets[g], rows = args.offsets[g + 1] - first;
  auto const input = [&](void const* base, std::int64_t elements) {
    return static_cast<std::byte const*>(base) + elements * static_cast<std::int64_t>(bytes_of(args.input_dtype));
  };
  auto const output = [&](std::int64_t elements) {
    return static_cast<std::byte*>(args.c) + elements * static_cast<std::int64_t>(bytes_of(args.output_dtype));
  };
  GemmArgs one{.n = args.n,
               .ldc = args.n,
               .beta = args.beta,
               .input_dtype = args.input_dtype,
               .output_dtype = args.output_dtype};
  if (args.weight_gradient) {
    one.a = input(args.a, first * args.m);
    one.b = input(args.b, first * args.n);
    one.c = output(g * args.m * args.n);
    one.m = one.lda = args.m;
    one.ldb = args.n;
    one.k = rows;
    one.transpose_a = true;
    return one;
  }
  one.a = input(args.a, first * args.k);
  one.b = input(args.b, g * args.k * args.n);
  one.c = output(first * args.n);
  one.m = rows;
  one.k = one.lda = args.k;
  one.ldb = args.transpose_b ? args.k : args.n;
  one.transpose_b = args.transpose_b;
  return one;
}

}  // namespace shardbench
