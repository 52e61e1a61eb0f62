#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

/// A GPU is full only with many more.
std::int64_t tokens() { return on_host() ? 1024 : 8192; }
/// A row of logits is long.
std::int64_t loss_tokens() { return on_host() ? 256 : 4096; }

NormKind norm_of(ModelShape const& model) { return model.gated ? NormKind::rms_norm : NormKind::layer_norm; }

NormShape norm_shape(ModelShape const& model) {
  return {.kind = norm_of(model), .rows = tokens(), .cols = model.hidden, .residual = true};
}

void bench_norm_forward(benchmark::State& state, ModelShape const& model, Dtype dtype) {
  std::int64_t const elements = tokens() * model.hidden;
  Buffer const x(dtype, elements), residual(dtype, elements), sum(dtype, elements), y(dtype, elements);
  Buffer const weight(dtype, model.hidden), mean(Dtype::f32, tokens()), rstd(Dtype::f32, tokens());
  NormForwardArgs args;
  args.kind = norm_of(model);
  args.x = x.data();
  args.residual = residual.data();
  args.sum = sum.data();
  args.weight = weight.data();
  args.bias = model.gated ? nullptr : weight.data();
  args.y = y.data();
  args.mean = mean.floats();
  args.rstd = rstd.floats();
  args.rows = tokens();
  args.cols = args.x_stride = args.y_stride = model.hidden;
  args.dtype = dtype;
  time_kernel(state, args, norm_shape(model), {dtype});
}

void bench_norm_backward(benchmark::State& state, ModelShape const& model, Dtype dtype) {
  std::int64_t const elements = tokens() * model.hidden;
  Buffer const x(dtype, elements), dy(dtype, elements), dsum(dtype, elements), dx(dtype, elements);
  Buffer const weight(dtype, model.hidden), mean(Dtype::f32, tokens()), rstd(Dtype::f32, tokens());
  Buffer const dweight(Dtype::f32, model.hidden), dbias(Dtype::f32, model.hidden);
  NormBackwardArgs args;
  args.kind = norm_of(model);
  args.dy = dy.data();
  args.x = x.data();
  args.weight = weight.data();
  args.mean = mean.floats();
  args.rstd = rstd.floats();
  args.dsum = dsum.data();
  args.dx = dx.data();
  args.dweight = dweight.floats();
  args.dbias = model.gated ? nullptr : dbias.floats();
  args.rows = tokens();
  args.cols = args.x_stride = args.y_stride = model.hidden;
  args.dtype = dtype;
  time_kernel(state, args, norm_shape(model), {dtype});
}

void bench_rope(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  RopeArgs args;
  args.seq = tokens();
  args.batch = 1;
  args.heads = (model.heads + model.kv_heads) / tp;
  args.head_dim = args.rotary_dim = model.head_dim;
  args.row_stride = args.heads * args.head_dim;
  args.dtype = dtype;
  Buffer const x(dtype, tokens() * args.row_stride);
  args.x = x.data();
  time_kernel(state, args, {tokens(), 1, args.heads, args.head_dim, args.rotary_dim, args.rule}, {dtype});
}

void bench_activation(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype, bool backward) {
  std::int64_t const cols = model.ffn / tp;
  ActivationKind const kind = model.gated ? ActivationKind::silu : ActivationKind::gelu_tanh;
  Buffer const x(dtype, tokens() * cols * (model.gated ? 2 : 1)), y(dtype, tokens() * cols);
  Buffer const dx(dtype, backward ? tokens() * cols * (model.gated ? 2 : 1) : 0);
  ActivationShape const shape{kind, model.gated, tokens(), cols};
  if (backward) {
    ActivationBackwardArgs const args{kind, model.gated, y.data(), x.data(), dx.data(), tokens(), cols, dtype};
    time_kernel(state, args, shape, {dtype});
  } else {
    ActivationForwardArgs const args{kind, model.gated, x.data(), y.data(), tokens(), cols, dtype};
    time_kernel(state, args, shape, {dtype});
  }
}

Buffer token_ids(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < count; ++t) ids.push_back(static_cast<std::int32_t>(t * 7919 % vocab));
  return Buffer(ids);
}

void bench_embedding(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype, bool backward) {
  std::int64_t const rows = model.vocab / tp;
  Buffer const ids = token_ids(tokens(), rows);
  Buffer const weight(backward ? Dtype::f32 : dtype, rows * model.hidden), out(dtype, tokens() * model.hidden);
  EmbeddingShape const shape{tokens(), rows, model.hidden};
  if (backward) {
    EmbeddingBackwardArgs const args{ids.ids(), out.data(), weight.floats(), tokens(), rows, model.hidden, 0,
                                     true,      dtype};
    time_kernel(state, args, shape, {.precision = dtype, .adds = true});
  } else {
    EmbeddingForwardArgs const args{ids.ids(), weight.data(), out.data(), tokens(), rows, model.hidden,
                                    0,         false,         dtype};
    time_kernel(state, args, shape, {dtype});
  }
}

/// Which of the loss's passes over the logits.
enum class LossPass { max, sum, backward };

void bench_cross_entropy(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype,
                         LossPass pass) {
  std::int64_t const columns = model.vocab / tp;
  Buffer const targets = token_ids(loss_tokens(), columns);
  Buffer const logits(dtype, loss_tokens() * columns), maximum(Dtype::f32, loss_tokens()),
      sums(Dtype::f32, 2 * loss_tokens()), dlogits(dtype, pass == LossPass::backward ? loss_tokens() * columns : 0);
  CrossEntropyShape const shape{logits.data(), targets.ids(), loss_tokens(), columns, 0, model.vocab, dtype};
  CrossEntropyOpShape const sizes{loss_tokens(), columns};
  KernelSet const& kernels = bench_kernels();
  kernels.cross_entropy_max(bench_stream(), {shape, maximum.floats()});
  if (pass == LossPass::max) {
    time_kernel(state, CrossEntropyMaxArgs{shape, maximum.floats()}, sizes, {dtype});
  } else if (pass == LossPass::sum) {
    time_kernel(state, CrossEntropySumArgs{shape, maximum.floats(), sums.floats()}, sizes, {dtype});
  } else {
    kernels.cross_entropy_sum(bench_stream(), {shape, maximum.floats(), sums.floats()});
    CrossEntropyBackwardArgs const args{shape, maximum.floats(), sums.floats(), dlogits.data(), 1.0f};
    time_kernel(state, args, sizes, {dtype});
  }
}

void register_whole_width(ModelShape const& model, Dtype dtype) {
  add_benchmark(bench_name("norm_forward", model, 1, dtype),
                [=](benchmark::State& state) { bench_norm_forward(state, model, dtype); });
  add_benchmark(bench_name("norm_backward", model, 1, dtype),
                [=](benchmark::State& state) { bench_norm_backward(state, model, dtype); });
}

void register_shard(ModelShape const& model, std::int64_t tp, Dtype dtype) {
  auto const add = [&](char const* op, auto body) { add_benchmark(bench_name(op, model, tp, dtype), body); };
  if (model.gated) add("rope", [=](benchmark::State& state) { bench_rope(state, model, tp, dtype); });
  for (bool const backward : {false, true}) {
    add(backward ? "activation_backward" : "activation_forward",
        [=](benchmark::State& state) { bench_activation(state, model, tp, dtype, backward); });
    add(backward ? "embedding_backward" : "embedding_forward",
        [=](benchmark::State& state) { bench_embedding(state, model, tp, dtype, backward); });
  }
  for (auto const& [name, pass] :
       {std::pair{"cross_entropy_max", LossPass::max}, std::pair{"cross_entropy_sum", LossPass::sum},
        std::pair{"cross_entropy_backward", LossPass::backward}}) {
    add(name, [=, which = pass](benchmark::State& state) { bench_cross_entropy(state, model, tp, dtype, which); });
  }
}

}  // namespace

void register_block_ops() {
  for (ModelShape const& model : model_shapes) {
    for (Dtype const dtype : bench_dtypes) {
      register_whole_width(model, dtype);
      for (std::int64_t const tp : tp_sizes) {
        if (tp_divides(model, tp)) register_shard(model, tp, dtype);
      }
    }
  }
}

}  // namespace shardbench::bench
