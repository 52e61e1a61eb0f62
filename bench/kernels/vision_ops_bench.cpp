#include "bench/kernels/kernel_bench.hpp"

namespace shardbench::bench {
namespace {

constexpr std::int64_t images = 4;

/// A feature map of YOLO26n at 640 px, or the image of a ViT, with the window that goes over it.
struct MapShape {
  char const* name;
  std::int64_t size, channels, kernel, stride, padding;
  WindowShape window() const { return {size, size, images, channels, kernel, stride, padding}; }
};

constexpr MapShape convolutions[] = {
    {"yolo26n.stem", 320, 16, 3, 2, 1}, {"yolo26n.p3", 80, 64, 3, 2, 1}, {"vit.patch14", 224, 3, 14, 14, 0}};
constexpr MapShape depthwise_map{"yolo26n.p3", 80, 64, 3, 1, 1};
constexpr MapShape pool_map{"yolo26n.p5", 20, 128, 5, 1, 2};

void bench_columns(benchmark::State& state, MapShape const& map, Dtype dtype, bool backward) {
  WindowShape const w = map.window();
  std::int64_t const image = w.rows() * w.channels, columns = w.out_rows() * w.taps() * w.channels;
  Buffer const x(dtype, image), cols(dtype, columns);
  if (backward)
    time_kernel(state, Col2imArgs{w, cols.data(), x.data(), dtype}, w, {dtype});
  else
    time_kernel(state, Im2colArgs{w, x.data(), cols.data(), dtype}, w, {dtype});
}

void bench_depthwise(benchmark::State& state, Dtype dtype, bool backward) {
  WindowShape const w = depthwise_map.window();
  std::int64_t const in = w.rows() * w.channels, out = w.out_rows() * w.channels;
  Buffer const x(dtype, in), y(dtype, out), weight(dtype, w.taps() * w.channels), dx(dtype, in),
      dweight(Dtype::f32, w.taps() * w.channels);
  if (backward)
    time_kernel(state,
                DepthwiseBackwardArgs{w, y.data(), x.data(), weight.data(), dx.data(), dweight.floats(), false, dtype},
                w, {dtype});
  else
    time_kernel(state, DepthwiseForwardArgs{w, x.data(), weight.data(), y.data(), dtype}, w, {dtype});
}

void bench_batch_norm(benchmark::State& state, Dtype dtype, bool backward) {
  std::int64_t const rows = 160 * 160 * images, cols = 32;
  Buffer const x(dtype, rows * cols), y(dtype, rows * cols), weight(dtype, cols), bias(dtype, cols);
  Buffer const mean(Dtype::f32, cols), rstd(Dtype::f32, cols), dweight(Dtype::f32, cols), dbias(Dtype::f32, cols),
      sums(Dtype::f32, 2 * cols), dx(dtype, backward ? rows * cols : 0);
  if (backward)
    time_kernel(state,
                BatchNormBackwardArgs{y.data(), x.data(), weight.data(), mean.floats(), rstd.floats(), dx.data(),
                                      dweight.floats(), dbias.floats(), sums.floats(), rows, cols, false, dtype},
                {rows, cols}, {dtype});
  else
    time_kernel(state,
                BatchNormForwardArgs{x.data(), weight.data(), bias.data(), y.data(), mean.floats(), rstd.floats(), rows,
                                     cols, 1e-3f, dtype},
                {rows, cols}, {dtype});
}

void bench_max_pool(benchmark::State& state, Dtype dtype, bool backward) {
  WindowShape const w = pool_map.window();
  std::int64_t const count = w.rows() * w.channels;
  Buffer const x(dtype, count), y(dtype, count), taps(Dtype::f32, (count + 3) / 4);
  auto* const bytes = static_cast<std::uint8_t*>(taps.data());
  bench_kernels().max_pool_forward(bench_stream(), {w, x.data(), y.data(), bytes, dtype});
  if (backward)
    time_kernel(state, MaxPoolBackwardArgs{w, y.data(), bytes, x.data(), dtype}, w, {dtype});
  else
    time_kernel(state, MaxPoolForwardArgs{w, x.data(), y.data(), bytes, dtype}, w, {dtype});
}

void bench_upsample(benchmark::State& state, Dtype dtype, bool backward) {
  std::int64_t const size = 40, channels = 128, small = size * size * images * channels;
  Buffer const x(dtype, small), y(dtype, 4 * small);
  if (backward)
    time_kernel(state, UpsampleBackwardArgs{size, size, images, channels, 2, y.data(), x.data(), dtype},
                {size, size, images, channels}, {dtype});
  else
    time_kernel(state, UpsampleForwardArgs{size, size, images, channels, 2, x.data(), y.data(), dtype},
                {size, size, images, channels}, {dtype});
}

void bench_pool_rows(benchmark::State& state, Dtype dtype, bool backward) {
  std::int64_t const seq = 256, cols = 1408;
  float const scale = 1.0f / static_cast<float>(seq);
  Buffer const x(dtype, seq * images * cols), y(dtype, images * cols);
  if (backward)
    time_kernel(state, PoolRowsBackwardArgs{seq, images, cols, 0, seq, scale, y.data(), x.data(), dtype},
                {seq, images, cols, 0, seq}, {dtype});
  else
    time_kernel(state, PoolRowsForwardArgs{seq, images, cols, 0, seq, scale, x.data(), y.data(), dtype},
                {seq, images, cols, 0, seq}, {dtype});
}

}  // namespace

void register_vision_ops() {
  for (Dtype const dtype : bench_dtypes)
    for (bool const backward : {false, true}) {
      for (MapShape const& map : convolutions)
        add_benchmark(bench_name(backward ? "col2im" : "im2col", map.name, dtype),
                      [=](benchmark::State& state) { bench_columns(state, map, dtype, backward); });
      auto const add = [&](char const* forward_name, char const* backward_name, char const* shape, auto body) {
        add_benchmark(bench_name(backward ? backward_name : forward_name, shape, dtype),
                      [=](benchmark::State& state) { body(state, dtype, backward); });
      };
      add("depthwise_forward", "depthwise_backward", depthwise_map.name, bench_depthwise);
      add("batch_norm_forward", "batch_norm_backward", "yolo26n.p2", bench_batch_norm);
      add("max_pool_forward", "max_pool_backward", pool_map.name, bench_max_pool);
      add("upsample_forward", "upsample_backward", "yolo26n.p4", bench_upsample);
      add("pool_rows_forward", "pool_rows_backward", "vit-g", bench_pool_rows);
    }
}

}  // namespace shardbench::bench
