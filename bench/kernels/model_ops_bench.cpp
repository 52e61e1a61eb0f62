// Operations of single model families and of inference, at real shard shapes.
#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

constexpr std::int64_t tokens = 1024, context = 4096;

/// One new token over a cache, as a tensor-parallel rank decodes it.
void bench_decode(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  AttentionForwardArgs args;
  AttentionShape& s = args.shape;
  s.seq_q = s.batch = 1;
  s.seq_k = context;
  s.heads = model.heads / tp, s.kv_heads = model.kv_heads / tp;
  s.head_dim = s.value_dim = model.head_dim;
  s.dtype = dtype;
  std::int64_t const width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
  Buffer const q(dtype, width), out(dtype, width), cache(dtype, 2 * context * kv_width);
  auto* const first = static_cast<std::byte*>(cache.data());
  args.q = {q.data(), width};
  args.k = {first, 2 * kv_width};
  args.v = {first + kv_width * static_cast<std::int64_t>(bytes_of(dtype)), 2 * kv_width};
  args.out = {out.data(), width};
  AttentionOpShape shape{1, context, 1, s.heads, s.kv_heads, s.head_dim, s.value_dim};
  shape.visible_pairs = context;
  time_kernel(state, args, shape, {dtype});
}

/// Qwen3's norm of each query head.
void bench_head_norm(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  std::int64_t const heads = model.heads / tp, width = heads * model.head_dim;
  Buffer const x(dtype, tokens * width), y(dtype, tokens * width), weight(dtype, model.head_dim);
  Buffer const rstd(Dtype::f32, tokens * heads);
  NormForwardArgs args;
  args.kind = NormKind::rms_norm;
  args.x = x.data(), args.y = y.data(), args.weight = weight.data(), args.rstd = rstd.floats();
  args.rows = tokens, args.cols = model.head_dim, args.heads = heads;
  args.x_stride = args.y_stride = width;
  args.dtype = dtype;
  time_kernel(state, args, {.kind = args.kind, .rows = tokens, .cols = model.head_dim, .heads = heads}, {dtype});
}

/// DeepSeek-V3's keys, 128 heads over tp.
void bench_latent_keys(benchmark::State& state, std::int64_t tp, Dtype dtype, bool backward) {
  LatentKeyShape const s{tokens, 128 / tp, 128, 64, 128 / tp * 128, 64, dtype};
  Buffer const plain(dtype, tokens * s.plain_stride), rotary(dtype, tokens * s.rotary_stride);
  Buffer const keys(dtype, tokens * s.heads * s.key_dim());
  LatentKeysShape const shape{tokens, s.heads, s.plain_dim, s.rotary_dim};
  if (backward)
    time_kernel(state, SplitKeysArgs{s, keys.data(), plain.data(), rotary.data()}, shape, {dtype});
  else
    time_kernel(state, JoinKeysArgs{s, plain.data(), rotary.data(), keys.data()}, shape, {dtype});
}

void bench_best_token(benchmark::State& state, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  constexpr std::int64_t rows = 8;
  std::int64_t const columns = model.vocab / tp;
  Buffer const logits(dtype, rows * columns), best(Dtype::f32, 2 * rows);
  time_kernel(state, BestTokenArgs{logits.data(), best.floats(), rows, columns, 0, model.vocab, dtype}, {rows, columns},
              {dtype});
}

}  // namespace

void register_model_ops() {
  for (Dtype const dtype : bench_dtypes) {
    for (ModelShape const& model : model_shapes)
      for (std::int64_t const tp : tp_sizes) {
        if (!tp_divides(model, tp)) continue;
        auto const add = [&](char const* op, auto body) { add_benchmark(bench_name(op, model, tp, dtype), body); };
        add("attention.decode", [=](benchmark::State& state) { bench_decode(state, model, tp, dtype); });
        add("norm.heads", [=](benchmark::State& state) { bench_head_norm(state, model, tp, dtype); });
        add("best_token", [=](benchmark::State& state) { bench_best_token(state, model, tp, dtype); });
      }
    for (std::int64_t const tp : tp_sizes)
      for (bool const backward : {false, true})
        add_benchmark(bench_name(backward ? "latent_keys.split" : "latent_keys.join",
                                 "deepseek-v3/tp" + std::to_string(tp), dtype),
                      [=](benchmark::State& state) { bench_latent_keys(state, tp, dtype, backward); });
  }
}

}  // namespace shardbench::bench
