#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

/// C[m,n] = A[m,k] B[k,n] as it stands in a block's forward pass, and the two products of its backward pass.
enum class Pass { forward, input_gradient, weight_gradient };

void bench_gemm(benchmark::State& state, GemmShape shape, Pass pass, Dtype dtype) {
  GemmArgs args;
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.transpose_b = pass == Pass::input_gradient;   // dX = dY W^T
  args.transpose_a = pass == Pass::weight_gradient;  // dW = X^T dY, accumulated in fp32
  args.beta = pass == Pass::weight_gradient ? 1.0f : 0.0f;
  args.lda = args.transpose_a ? args.m : args.k;
  args.ldb = args.transpose_b ? args.k : args.n;
  args.ldc = args.n;
  args.input_dtype = dtype;
  args.output_dtype = pass == Pass::weight_gradient ? Dtype::f32 : dtype;
  Buffer const a(dtype, args.m * args.k), b(dtype, args.k * args.n), c(args.output_dtype, args.m * args.n);
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  CostContext const context{.precision = dtype, .output = args.output_dtype, .adds = args.beta != 0};
  time_kernel(state, args, shape, context);
}

void add_gemm(std::string const& op, ModelShape const& model, std::int64_t tp, GemmShape shape, Pass pass) {
  for (Dtype const dtype : bench_dtypes) {
    add_benchmark(bench_name(op, model, tp, dtype),
                  [=](benchmark::State& state) { bench_gemm(state, shape, pass, dtype); });
  }
}

/// Experts of Mixtral's width with a skewed load.
void bench_grouped_gemm(benchmark::State& state, Dtype dtype) {
  constexpr std::int64_t groups = 4, hidden = 4096, ffn = 3584, rows = 256;
  std::int32_t const offsets[] = {0, 128, 192, 224, 256};
  Buffer const a(dtype, rows * hidden), b(dtype, groups * hidden * ffn), c(dtype, rows * ffn);
  GroupedGemmArgs args{.a = a.data(), .b = b.data(), .c = c.data(), .offsets = offsets, .groups = groups};
  args.m = rows;
  args.n = ffn;
  args.k = hidden;
  args.input_dtype = args.output_dtype = dtype;
  GroupedGemmShape const shape{.groups = groups, .m = rows, .n = ffn, .k = hidden, .expected_m = rows};
  time_kernel(state, args, shape, {.precision = dtype, .output = dtype});
}

/// The forward product in 8 bits, scales of one; B lies as [n,k], as cuBLASLt has it.
void bench_fp8_gemm(benchmark::State& state, GemmShape shape) {
  Buffer const a(Dtype::fp8, shape.m * shape.k), b(Dtype::fp8, shape.n * shape.k), c(Dtype::bf16, shape.m * shape.n);
  GemmArgs args{.a = a.data(), .b = b.data(), .c = c.data(), .m = shape.m, .n = shape.n, .k = shape.k};
  args.lda = args.ldb = shape.k;
  args.ldc = shape.n;
  args.transpose_b = true;
  args.input_dtype = Dtype::fp8;
  args.output_dtype = Dtype::bf16;
  time_kernel(state, args, shape, {.precision = Dtype::fp8, .output = Dtype::bf16});
}

void add_fp8_gemm(std::string const& op, ModelShape const& model, std::int64_t tp, GemmShape shape) {
  if (on_host()) return;  // the CPU has no fp8
  add_benchmark(bench_name(op, model, tp, Dtype::fp8), [=](benchmark::State& state) { bench_fp8_gemm(state, shape); });
}

}  // namespace

void register_gemm() {
  for (ModelShape const& model : model_shapes) {
    for (std::int64_t const tp : tp_sizes) {
      if (!tp_divides(model, tp)) continue;
      std::int64_t const tokens = gemm_tokens(model), hidden = model.hidden;
      std::int64_t const qkv = (model.heads + 2 * model.kv_heads) * model.head_dim / tp;
      std::int64_t const up = model.ffn * (model.gated ? 2 : 1) / tp;
      add_gemm("gemm.qkv", model, tp, {tokens, qkv, hidden}, Pass::forward);
      add_gemm("gemm.attention_out", model, tp, {tokens, hidden, model.heads * model.head_dim / tp}, Pass::forward);
      add_gemm("gemm.mlp_up", model, tp, {tokens, up, hidden}, Pass::forward);
      add_fp8_gemm("gemm.mlp_up", model, tp, {tokens, up, hidden});
      add_fp8_gemm("gemm.mlp_down", model, tp, {tokens, hidden, model.ffn / tp});
      add_gemm("gemm.mlp_down", model, tp, {tokens, hidden, model.ffn / tp}, Pass::forward);
      add_gemm("gemm.mlp_down.input_gradient", model, tp, {tokens, model.ffn / tp, hidden}, Pass::input_gradient);
      add_gemm("gemm.mlp_down.weight_gradient", model, tp, {model.ffn / tp, hidden, tokens}, Pass::weight_gradient);
      add_gemm("gemm.decode_mlp_down", model, tp, {1, hidden, model.ffn / tp}, Pass::forward);
    }
  }
  for (Dtype const dtype : bench_dtypes) {
    add_benchmark(bench_name("grouped_gemm", "mixtral-8x7b/ep2-etp4", dtype),
                  [=](benchmark::State& state) { bench_grouped_gemm(state, dtype); });
  }
}

}  // namespace shardbench::bench
