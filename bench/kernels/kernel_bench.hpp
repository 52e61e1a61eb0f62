#pragma once
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>
#include <vector>

#include "harness/exec/devices.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench::bench {

/// The widths of a decoder block; what a rank holds is these over tp.
struct ModelShape {
  char const* name;
  std::int64_t hidden, ffn, heads, kv_heads, head_dim, vocab;
  bool gated;                          ///< Llama's RMSNorm, RoPE and SwiGLU instead of GPT's LayerNorm and GELU
  std::int64_t host_tokens, host_seq;  ///< chosen so that every benchmark takes under half a second on one core
};

/// GPT-2 (its vocabulary padded to a multiple of 128) and the Llama 3 sizes.
inline constexpr ModelShape model_shapes[] = {
    {"gpt2", 768, 3072, 12, 12, 64, 50304, false, 1024, 1024},
    {"llama3-8b", 4096, 14336, 32, 8, 128, 128256, true, 128, 1024},
    {"llama3-70b", 8192, 28672, 64, 8, 128, 128256, true, 32, 512},
};

inline constexpr std::int64_t tp_sizes[] = {1, 2, 4, 8};
inline constexpr Dtype bench_dtypes[] = {Dtype::f32, Dtype::bf16};

/// Rows of a product and length of a sequence: on a GPU what training has.
std::int64_t gemm_tokens(ModelShape const& model);
std::int64_t attention_seq(ModelShape const& model);

/// Whether tp cuts the heads evenly and leaves each rank a kv head of its own.
inline bool tp_divides(ModelShape const& model, std::int64_t tp) {
  return model.heads % tp == 0 && model.kv_heads % tp == 0 && model.ffn % tp == 0;
}

/// "op/shape/bf16".
std::string bench_name(std::string const& op, std::string const& shape, Dtype dtype);
/// "op/model/tp4/bf16".
std::string bench_name(std::string const& op, ModelShape const& model, std::int64_t tp, Dtype dtype);

/// The device under test, from --device.
DeviceHandle const& bench_handle();
Device& bench_device();
bool on_host();

/// Device memory that a benchmark owns, filled with small random numbers.
class Buffer {
 public:
  Buffer(Dtype dtype, std::int64_t count);
  explicit Buffer(std::vector<std::int32_t> const& values);
  ~Buffer();
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  std::int32_t* ids() const { return static_cast<std::int32_t*>(data_); }

 private:
  void* data_;
};

/// The compute stream all benchmarks run on.
Stream& bench_stream();
/// The kernels of the device under test.
KernelSet const& bench_kernels();

/// Seconds of a call. On a GPU calls are put behind each other and timed by events, so that what the host takes to
/// launch one is hidden as in a step.
template <class Args>
double time_once(void (*kernel)(Stream&, Args const&), Args const& args) {
  Stream& stream = bench_stream();
  if (on_host()) {
    auto const start = std::chrono::steady_clock::now();
    kernel(stream, args);
    stream.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  constexpr int calls = 10;
  static auto const start = bench_device().make_event(true), end = bench_device().make_event(true);
  stream.record(*start);
  for (int i = 0; i < calls; ++i) kernel(stream, args);
  stream.record(*end);
  end->synchronize();
  return 1e-3 * (end->time_ms() - start->time_ms()) / calls;
}

/// The kernel under test that takes these arguments.
#define SHARDBENCH_KERNEL_OF(name, Args) \
  inline auto kernel_of(Args const&) { return bench_kernels().name; }
SHARDBENCH_EACH_KERNEL(SHARDBENCH_KERNEL_OF)
#undef SHARDBENCH_KERNEL_OF

/// Times the kernel of `args` and reports TFLOP/s and GB/s (1e9) by the cost of `shape`; a device that has no such
/// kernel says so.
template <class Args>
void time_kernel(benchmark::State& state, Args const& args, typename Args::Shape const& shape,
                 CostContext const& context) {
  auto const kernel = kernel_of(args);
  OpCost const cost = Args::cost(shape, context);
  double elapsed = 0;
  try {
    kernel(bench_stream(), args);  // first touch and workspaces
    bench_stream().synchronize();
    for ([[maybe_unused]] auto _ : state) {
      double const once = time_once(kernel, args);
      state.SetIterationTime(once);
      elapsed += once;
    }
  } catch (Error const& error) {
    state.SkipWithError(error.what());
    return;
  }
  double const calls_per_second = static_cast<double>(state.iterations()) / elapsed;
  state.counters["TFLOP/s"] = cost.flops * calls_per_second / 1e12;
  state.counters["GB/s"] = cost.bytes * calls_per_second / 1e9;
}

/// Registers `body` under `name`; times are those that the body measures.
template <class Body>
void add_benchmark(std::string const& name, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.1);
}

void register_gemm();
void register_attention();
void register_block_ops();
void register_flat_ops();
void register_routing();
void register_model_ops();
void register_vision_ops();

}  // namespace shardbench::bench
