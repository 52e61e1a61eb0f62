#include <cmath>

#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

/// One rank's heads of one sequence, q, k and v as slices of a packed QKV row.
struct AttentionBuffers {
  AttentionShape shape;
  std::int64_t q_width, kv_width;
  Buffer qkv, out, dout, dqkv, log_sum_exp;

  AttentionBuffers(ModelShape const& model, std::int64_t tp, Dtype dtype)
      : q_width(model.heads / tp * model.head_dim),
        kv_width(model.kv_heads / tp * model.head_dim),
        qkv(dtype, attention_seq(model) * (q_width + 2 * kv_width)),
        out(dtype, attention_seq(model) * q_width),
        dout(dtype, attention_seq(model) * q_width),
        dqkv(dtype, attention_seq(model) * (q_width + 2 * kv_width)),
        log_sum_exp(Dtype::f32, attention_seq(model) * model.heads / tp) {
    shape.seq_q = shape.seq_k = attention_seq(model);
    shape.batch = 1;
    shape.heads = model.heads / tp;
    shape.kv_heads = model.kv_heads / tp;
    shape.head_dim = shape.value_dim = model.head_dim;
    shape.scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim));
    shape.dtype = dtype;
  }
  AttentionTensor slice(Buffer const& packed, std::int64_t column) const {
    auto const bytes = column * static_cast<std::int64_t>(bytes_of(shape.dtype));
    return {static_cast<std::byte*>(packed.data()) + bytes, q_width + 2 * kv_width};
  }
  AttentionForwardArgs forward() const {
    AttentionForwardArgs args;
    args.shape = shape;
    args.q = slice(qkv, 0);
    args.k = slice(qkv, q_width);
    args.v = slice(qkv, q_width + kv_width);
    args.out = {out.data(), q_width};
    args.log_sum_exp = log_sum_exp.floats();
    return args;
  }
  AttentionBackwardArgs backward() const {
    AttentionForwardArgs const given = forward();
    AttentionBackwardArgs args;
    args.shape = shape;
    args.q = given.q;
    args.k = given.k;
    args.v = given.v;
    args.out = given.out;
    args.dout = {dout.data(), q_width};
    args.dq = slice(dqkv, 0);
    args.dk = slice(dqkv, q_width);
    args.dv = slice(dqkv, q_width + kv_width);
    args.log_sum_exp = log_sum_exp.floats();
    return args;
  }
  /// The output takes in one over other keys: what a ring does between its steps.
  AttentionMergeArgs merge() const {
    return {shape.seq_q,          shape.batch,           shape.heads,
            shape.value_dim,      {out.data(), q_width}, {dout.data(), q_width},
            log_sum_exp.floats(), log_sum_exp.floats(),  0,
            shape.dtype};
  }
  AttentionOpShape op_shape() const {
    AttentionOpShape s{shape.seq_q,    shape.seq_k,    shape.batch,    shape.heads,
                       shape.kv_heads, shape.head_dim, shape.value_dim};
    s.visible_pairs = visible_pairs({shape.seq_q, shape.seq_k, true, 0, 0});
    return s;
  }
};

}  // namespace

/// TFLOP/s counts the pairs that the causal mask leaves, not the whole square.
void register_attention() {
  for (ModelShape const& model : model_shapes) {
    for (std::int64_t const tp : tp_sizes) {
      if (!tp_divides(model, tp)) continue;
      for (Dtype const dtype : bench_dtypes) {
        add_benchmark(bench_name("attention_forward", model, tp, dtype), [=](benchmark::State& state) {
          AttentionBuffers const buffers(model, tp, dtype);
          time_kernel(state, buffers.forward(), buffers.op_shape(), {dtype});
        });
        add_benchmark(bench_name("attention_merge", model, tp, dtype), [=](benchmark::State& state) {
          AttentionBuffers const buffers(model, tp, dtype);
          time_kernel(state, buffers.merge(), buffers.op_shape(), {dtype});
        });
        add_benchmark(bench_name("attention_backward", model, tp, dtype), [=](benchmark::State& state) {
          AttentionBuffers const buffers(model, tp, dtype);
          bench_kernels().attention_forward(bench_stream(), buffers.forward());
          time_kernel(state, buffers.backward(), buffers.op_shape(), {dtype});
        });
      }
    }
  }
}

}  // namespace shardbench::bench
