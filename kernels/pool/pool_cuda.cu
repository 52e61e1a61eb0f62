#include "kernels/conv/window_math.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/pool/pool.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct MaxForward {
  MaxPoolForwardArgs a;
  WindowSizes s;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels, row = i / s.channels, place = row / s.batch, sample = row % s.batch;
    float best[width], value[width];
    std::uint8_t from[width] = {};
    for (int j = 0; j < width; ++j) best[j] = -INFINITY;
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      std::int64_t const y = s.input_of(place / s.out_width, tap / s.kernel);
      std::int64_t const x = s.input_of(place % s.out_width, tap % s.kernel);
      if (!s.inside(y, x)) continue;
      load<width>(as<T>(a.x) + s.row(y, x, sample) * s.channels + c, value);
      for (int j = 0; j < width; ++j)
        if (value[j] > best[j]) best[j] = value[j], from[j] = static_cast<std::uint8_t>(tap);
    }
    store<width>(as<T>(a.y) + i, best);
    for (int j = 0; j < width; ++j) a.taps[i + j] = from[j];
  }
};

/// Each input element asks every window that sees it, so nothing is added atomically.
template <class T>
struct MaxBackward {
  MaxPoolBackwardArgs a;
  WindowSizes s;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels, row = i / s.channels, place = row / s.batch, sample = row % s.batch;
    float sum[width] = {}, value[width];
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      std::int64_t const y = s.output_of(place / s.width, tap / s.kernel, s.out_height);
      std::int64_t const x = s.output_of(place % s.width, tap % s.kernel, s.out_width);
      if (y < 0 || x < 0) continue;
      std::int64_t const out = s.out_row(y, x, sample) * s.channels + c;
      load<width>(as<T>(a.dy) + out, value);
      for (int j = 0; j < width; ++j) sum[j] += a.taps[out + j] == tap ? value[j] : 0.0f;
    }
    store<width>(as<T>(a.dx) + i, sum);
  }
};

template <class T>
struct Enlarge {
  UpsampleForwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % a.channels, row = i / a.channels, sample = row % a.batch, place = row / a.batch;
    std::int64_t const wide = a.width * a.factor, from = place / wide / a.factor * a.width + place % wide / a.factor;
    float value[width];
    load<width>(as<T>(a.x) + (from * a.batch + sample) * a.channels + c, value);
    store<width>(as<T>(a.y) + i, value);
  }
};

template <class T>
struct Reduce {
  UpsampleBackwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % a.channels, row = i / a.channels, sample = row % a.batch, place = row / a.batch;
    float sum[width] = {}, value[width];
    for (std::int64_t copy = 0; copy < a.factor * a.factor; ++copy) {
      std::int64_t const y = place / a.width * a.factor + copy / a.factor;
      std::int64_t const x = place % a.width * a.factor + copy % a.factor;
      load<width>(as<T>(a.dy) + ((y * a.width * a.factor + x) * a.batch + sample) * a.channels + c, value);
      for (int j = 0; j < width; ++j) sum[j] += value[j];
    }
    store<width>(as<T>(a.dx) + i, sum);
  }
};

template <class T>
struct SumRows {
  PoolRowsForwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float sum[width] = {}, value[width];
    for (std::int64_t s = a.begin; s < a.end; ++s) {
      load<width>(as<T>(a.x) + s * a.batch * a.cols + i, value);
      for (int j = 0; j < width; ++j) sum[j] += a.scale * value[j];
    }
    store<width>(as<T>(a.y) + i, sum);
  }
};

template <class T>
struct SpreadRows {
  PoolRowsBackwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const count = a.batch * a.cols, s = i / count;
    float value[width] = {};
    if (s >= a.begin && s < a.end) load<width>(as<T>(a.dy) + i % count, value);
    for (int j = 0; j < width; ++j) value[j] *= a.scale;
    store<width>(as<T>(a.dx) + i, value);
  }
};

std::size_t bytes(std::int64_t elements, Dtype dtype) { return elements * bytes_of(dtype); }

}  // namespace

void max_pool_forward(Stream& stream, MaxPoolForwardArgs const& args) {
  WindowShape const& w = args.window;
  std::int64_t const count = w.out_rows() * w.channels;
  declare_access(stream.native(),
                 {reads(args.x, bytes(w.rows() * w.channels, args.dtype)), writes(args.y, bytes(count, args.dtype)),
                  writes(args.taps, bytes(count, Dtype::u8))});
  for_each_element<MaxForward>(stream, args, count, w.channels, {args.x, args.y}, sizes_of(w));
}

void max_pool_backward(Stream& stream, MaxPoolBackwardArgs const& args) {
  WindowShape const& w = args.window;
  std::int64_t const count = w.out_rows() * w.channels;
  declare_access(stream.native(), {reads(args.dy, bytes(count, args.dtype)), reads(args.taps, bytes(count, Dtype::u8)),
                                   writes(args.dx, bytes(w.rows() * w.channels, args.dtype))});
  for_each_element<MaxBackward>(stream, args, w.rows() * w.channels, w.channels, {args.dy, args.dx}, sizes_of(w));
}

void upsample_forward(Stream& stream, UpsampleForwardArgs const& a) {
  std::int64_t const small = a.height * a.width * a.batch * a.channels, large = small * a.factor * a.factor;
  declare_access(stream.native(), {reads(a.x, bytes(small, a.dtype)), writes(a.y, bytes(large, a.dtype))});
  for_each_element<Enlarge>(stream, a, large, a.channels, {a.x, a.y});
}

void upsample_backward(Stream& stream, UpsampleBackwardArgs const& a) {
  std::int64_t const small = a.height * a.width * a.batch * a.channels, large = small * a.factor * a.factor;
  declare_access(stream.native(), {reads(a.dy, bytes(large, a.dtype)), writes(a.dx, bytes(small, a.dtype))});
  for_each_element<Reduce>(stream, a, small, a.channels, {a.dy, a.dx});
}

void pool_rows_forward(Stream& stream, PoolRowsForwardArgs const& a) {
  std::int64_t const count = a.batch * a.cols;
  declare_access(stream.native(), {reads(a.x, bytes(a.seq * count, a.dtype)), writes(a.y, bytes(count, a.dtype))});
  for_each_element<SumRows>(stream, a, count, count, {a.x, a.y});
}

void pool_rows_backward(Stream& stream, PoolRowsBackwardArgs const& a) {
  std::int64_t const count = a.batch * a.cols;
  declare_access(stream.native(), {reads(a.dy, bytes(count, a.dtype)), writes(a.dx, bytes(a.seq * count, a.dtype))});
  for_each_element<SpreadRows>(stream, a, a.seq * count, count, {a.dy, a.dx});
}

}  // namespace shardbench::cuda
