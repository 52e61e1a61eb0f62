#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

std::int64_t tokens() { return on_host() ? 1024 : 8192; }

/// Parameters of one block on one rank, norms left out.
std::int64_t block_parameters(ModelShape const& model, std::int64_t tp) {
  std::int64_t const attention = model.hidden * (2 * model.heads + 2 * model.kv_heads) * model.head_dim;
  return (attention + (model.gated ? 3 : 2) * model.hidden * model.ffn) / tp;
}

/// The optimizer of one block; of a large block, an eighth, as a dp of 8 with sharded states leaves.
void bench_adamw(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  std::int64_t const count = block_parameters(model, tp) / (model.gated ? 8 : 1);
  bool const with_master = dtype != Dtype::f32;
  Buffer const parameter(dtype, count), gradient(Dtype::f32, count), exp_avg(Dtype::f32, count),
      exp_avg_sq(Dtype::f32, count), master(Dtype::f32, with_master ? count : 0);
  // A second moment is never negative.
  bench_device().fill_bytes(exp_avg_sq.data(), 0, count * sizeof(float), bench_stream());
  AdamWArgs args;
  args.parameter = parameter.data();
  args.master = with_master ? master.floats() : nullptr;
  args.exp_avg = exp_avg.floats();
  args.exp_avg_sq = exp_avg_sq.floats();
  args.gradient = gradient.data();
  args.count = count;
  args.parameter_dtype = dtype;
  time_kernel(state, args, {count}, {.precision = dtype, .given_outputs = with_master ? 2u : 0u});
}

void bench_add(benchmark::State& state, std::int64_t count, Dtype dtype) {
  Buffer const a(dtype, count), b(dtype, count), out(dtype, count);
  time_kernel(state, AddArgs{a.data(), b.data(), out.data(), count, 1.0f, dtype}, {1, count}, {dtype});
}

void bench_column_sum(benchmark::State& state, std::int64_t cols, Dtype dtype) {
  Buffer const x(dtype, tokens() * cols), sums(Dtype::f32, cols);
  time_kernel(state, ColumnSumArgs{x.data(), sums.floats(), tokens(), cols, false, dtype}, {tokens(), cols}, {dtype});
}

void bench_copy_block(benchmark::State& state, std::int64_t cols, Dtype from_dtype, Dtype to_dtype) {
  Buffer const from(from_dtype, tokens() * 2 * cols), to(to_dtype, tokens() * cols);
  CopyBlockArgs const args{from.data(), to.data(), tokens(), cols, 2 * cols, cols, from_dtype, to_dtype};
  time_kernel(state, args, {tokens(), cols}, {.input = from_dtype, .output = to_dtype});
}

void bench_square_sum(benchmark::State& state, std::int64_t count, Dtype dtype) {
  Buffer const x(dtype, count), out(Dtype::f32, 1);
  time_kernel(state, SquareSumArgs{x.data(), out.floats(), count, false, dtype}, {1, count}, {.input = dtype});
}

void bench_dropout(benchmark::State& state, std::int64_t cols, Dtype dtype) {
  Buffer const x(dtype, tokens() * cols), residual(dtype, tokens() * cols),
      positions(Dtype::f32, tokens());  // any bits will do
  DropoutArgs args;
  args.x = x.data(), args.residual = residual.data(), args.out = x.data();
  args.rows = args.seq = tokens(), args.cols = cols, args.rate = 0.1f;
  args.positions = static_cast<std::int32_t const*>(positions.data());
  args.dtype = dtype;
  time_kernel(state, args, {tokens(), cols}, {.precision = dtype, .given_inputs = 0b101});
}

void register_model(ModelShape const& model, Dtype dtype) {
  std::int64_t const hidden = model.hidden, activations = tokens() * hidden;
  auto const add = [&](char const* op, auto body) { add_benchmark(bench_name(op, model, 1, dtype), body); };
  add("add", [=](benchmark::State& state) { bench_add(state, activations, dtype); });
  add("column_sum", [=](benchmark::State& state) { bench_column_sum(state, hidden, dtype); });
  add("copy_block.slice", [=](benchmark::State& state) { bench_copy_block(state, hidden, dtype, dtype); });
  add("copy_block.to_fp32", [=](benchmark::State& state) { bench_copy_block(state, hidden, dtype, Dtype::f32); });
  add("square_sum", [=](benchmark::State& state) { bench_square_sum(state, activations, dtype); });
  add("dropout", [=](benchmark::State& state) { bench_dropout(state, hidden, dtype); });
}

}  // namespace

void register_flat_ops() {
  for (ModelShape const& model : model_shapes) {
    for (Dtype const dtype : bench_dtypes) {
      register_model(model, dtype);
      for (std::int64_t const tp : tp_sizes) {
        if (!tp_divides(model, tp)) continue;
        add_benchmark(bench_name("adamw", model, tp, dtype),
                      [=](benchmark::State& state) { bench_adamw(state, model, tp, dtype); });
      }
    }
  }
}

}  // namespace shardbench::bench
