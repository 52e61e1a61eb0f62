#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

/// A mixture of experts as one rank routes it.
struct RoutedShape {
  char const* name;
  std::int64_t hidden;
  RouterRule rule;
  std::int64_t ranks;  ///< expert-parallel ranks
};

constexpr std::int64_t tokens = 1024;

RoutedShape const shapes[] = {
    {"mixtral-8x7b/ep8", 4096, {.experts = 8, .top_k = 2, .normalize = true}, 8},
    {"qwen3-30b-a3b/ep8", 2048, {.experts = 128, .top_k = 8, .normalize = true}, 8},
    {"deepseek-v3/ep64",
     7168,
     {.experts = 256, .top_k = 8, .sigmoid = true, .normalize = true, .groups = 8, .top_groups = 4, .group_best = 2},
     64},
};

/// One routing of random logits, and the buffers that move with it.
struct Routing {
  Routing(RoutedShape const& s, Dtype dtype)
      : shape(s),
        type(dtype),
        entries(tokens * s.rule.top_k),
        logits(dtype, tokens * s.rule.experts),
        dlogits(dtype, tokens * s.rule.experts),
        weights(Dtype::f32, entries),
        x(dtype, tokens * s.hidden),
        sorted(dtype, entries * s.hidden),
        indices(zeros(entries)),
        rows(zeros(entries)),
        counts(zeros(s.rule.experts)) {
    KernelSet const& k = bench_kernels();
    k.router_forward(bench_stream(), forward());
    k.expert_rows(bench_stream(), places());
    bench_stream().synchronize();
  }
  RouterForwardArgs forward() {
    return {shape.rule, {}, logits.data(), nullptr, weights.floats(), indices.ids(), tokens, type};
  }
  RouterBackwardArgs backward() {
    return {shape.rule, logits.data(), indices.ids(), weights.floats(), dlogits.data(), tokens, type};
  }
  ExpertRowsArgs places() {
    ExpertRowsArgs args;
    args.indices = indices.ids(), args.rows = rows.ids(), args.counts = counts.ids();
    args.tokens = tokens, args.top_k = shape.rule.top_k, args.experts = shape.rule.experts, args.ranks = shape.ranks;
    return args;
  }
  PermuteArgs permute() {
    return {x.data(), rows.ids(), nullptr, sorted.data(), tokens, shape.rule.top_k, 1, shape.hidden, entries, type};
  }
  UnpermuteArgs unpermute() {
    return {sorted.data(),    rows.ids(), weights.floats(), x.data(), tokens,
            shape.rule.top_k, 1,          shape.hidden,     entries,  type};
  }
  CombineWeightsArgs combine() {
    return {x.data(),     sorted.data(), rows.ids(), weights.floats(), tokens, shape.rule.top_k, 1,
            shape.hidden, entries,       type};
  }

  static std::vector<std::int32_t> zeros(std::int64_t count) { return std::vector<std::int32_t>(count); }

  RoutedShape const& shape;
  Dtype type;
  std::int64_t entries;
  Buffer const logits, dlogits, weights, x, sorted;
  Buffer const indices, rows, counts;
};

void add_shape(RoutedShape const& s, Dtype dtype) {
  auto const add = [&](char const* op, auto args, auto const& shape, CostContext const& context) {
    add_benchmark(bench_name(op, s.name, dtype), [&s, dtype, args, shape, context](benchmark::State& state) {
      Routing routing(s, dtype);
      time_kernel(state, (routing.*args)(), shape, context);
    });
  };
  double const t = static_cast<double>(tokens), sorted = t * static_cast<double>(s.rule.top_k);
  RouterShape const routed{s.rule, tokens};
  PermuteShape const moved{.cols = s.hidden, .expected_tokens = t, .expected_sorted = sorted};
  add("router_forward", &Routing::forward, routed, {dtype});
  add("router_backward", &Routing::backward, routed, {dtype});
  add("expert_rows", &Routing::places, RowsShape{tokens, s.rule.top_k, s.rule.experts}, {});
  add("permute", &Routing::permute, moved, {dtype});
  add("unpermute", &Routing::unpermute, moved, {dtype});
  add("combine_weights", &Routing::combine, moved, {dtype});
}

}  // namespace

void register_routing() {
  for (RoutedShape const& s : shapes)
    for (Dtype const dtype : bench_dtypes) add_shape(s, dtype);
}

}  // namespace shardbench::bench
