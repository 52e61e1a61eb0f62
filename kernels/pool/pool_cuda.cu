#include "kernels/conv/window_math.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"
#include "kernels/pool/pool.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct MaxForward {
  WindowSizes s;
  T const* image;
  T* out;
  std::uint8_t* taps;

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
      load<width>(image + s.row(y, x, sample) * s.channels + c, value);
      for (int j = 0; j < width; ++j)
        if (value[j] > best[j]) best[j] = value[j], from[j] = static_cast<std::uint8_t>(tap);
    }
    store<width>(out + i, best);
    for (int j = 0; j < width; ++j) taps[i + j] = from[j];
  }
};

/// Each input element asks every window that sees it, so nothing is added atomically.
template <class T>
struct MaxBackward {
  WindowSizes s;
  T const* dy;
  std::uint8_t const* taps;
  T* dx;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels, row = i / s.channels, place = row / s.batch, sample = row % s.batch;
    float sum[width] = {}, value[width];
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      std::int64_t const y = s.output_of(place / s.width, tap / s.kernel, s.out_height);
      std::int64_t const x = s.output_of(place % s.width, tap % s.kernel, s.out_width);
      if (y < 0 || x < 0) continue;
      std::int64_t const out = s.out_row(y, x, sample) * s.channels + c;
      load<width>(dy + out, value);
      for (int j = 0; j < width; ++j) sum[j] += taps[out + j] == tap ? value[j] : 0.0f;
    }
    store<width>(dx + i, sum);
  }
};

template <class T>
struct Enlarge {
  std::int64_t width_in, batch, channels, factor;
  T const* x;
  T* y;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % channels, row = i / channels, sample = row % batch, place = row / batch;
    std::int64_t const wide = width_in * factor, from = place / wide / factor * width_in + place % wide / factor;
    float value[width];
    load<width>(x + (from * batch + sample) * channels + c, value);
    store<width>(y + i, value);
  }
};

template <class T>
struct Reduce {
  std::int64_t width_in, batch, channels, factor;
  T const* dy;
  T* dx;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % channels, row = i / channels, sample = row % batch, place = row / batch;
    float sum[width] = {}, value[width];
    for (std::int64_t copy = 0; copy < factor * factor; ++copy) {
      std::int64_t const y = place / width_in * factor + copy / factor, x = place % width_in * factor + copy % factor;
      load<width>(dy + ((y * width_in * factor + x) * batch + sample) * channels + c, value);
      for (int j = 0; j < width; ++j) sum[j] += value[j];
    }
    store<width>(dx + i, sum);
  }
};

template <class T>
struct SumRows {
  std::int64_t count, begin, end;
  float scale;
  T const* x;
  T* y;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float sum[width] = {}, value[width];
    for (std::int64_t s = begin; s < end; ++s) {
      load<width>(x + s * count + i, value);
      for (int j = 0; j < width; ++j) sum[j] += scale * value[j];
    }
    store<width>(y + i, sum);
  }
};

template <class T>
struct SpreadRows {
  std::int64_t count, begin, end;
  float scale;
  T const* dy;
  T* dx;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const s = i / count;
    float value[width] = {};
    if (s >= begin && s < end) load<width>(dy + i % count, value);
    for (int j = 0; j < width; ++j) value[j] *= scale;
    store<width>(dx + i, value);
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
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    MaxForward<T> const body{sizes_of(w), static_cast<T const*>(args.x), static_cast<T*>(args.y), args.taps};
    bool const wide = w.channels % pack_width<T> == 0 && all_aligned(args.x, args.y);
    for_each<pack_width<T>>(body, count, wide, cuda_stream(stream));
  });
}

void max_pool_backward(Stream& stream, MaxPoolBackwardArgs const& args) {
  WindowShape const& w = args.window;
  std::int64_t const count = w.out_rows() * w.channels;
  declare_access(stream.native(), {reads(args.dy, bytes(count, args.dtype)), reads(args.taps, bytes(count, Dtype::u8)),
                                   writes(args.dx, bytes(w.rows() * w.channels, args.dtype))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    MaxBackward<T> const body{sizes_of(w), static_cast<T const*>(args.dy), args.taps, static_cast<T*>(args.dx)};
    bool const wide = w.channels % pack_width<T> == 0 && all_aligned(args.dy, args.dx);
    for_each<pack_width<T>>(body, w.rows() * w.channels, wide, cuda_stream(stream));
  });
}

void upsample_forward(Stream& stream, UpsampleForwardArgs const& a) {
  std::int64_t const small = a.height * a.width * a.batch * a.channels, large = small * a.factor * a.factor;
  declare_access(stream.native(), {reads(a.x, bytes(small, a.dtype)), writes(a.y, bytes(large, a.dtype))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    Enlarge<T> const body{a.width, a.batch, a.channels, a.factor, static_cast<T const*>(a.x), static_cast<T*>(a.y)};
    bool const wide = a.channels % pack_width<T> == 0 && all_aligned(a.x, a.y);
    for_each<pack_width<T>>(body, large, wide, cuda_stream(stream));
  });
}

void upsample_backward(Stream& stream, UpsampleBackwardArgs const& a) {
  std::int64_t const small = a.height * a.width * a.batch * a.channels, large = small * a.factor * a.factor;
  declare_access(stream.native(), {reads(a.dy, bytes(large, a.dtype)), writes(a.dx, bytes(small, a.dtype))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    Reduce<T> const body{a.width, a.batch, a.channels, a.factor, static_cast<T const*>(a.dy), static_cast<T*>(a.dx)};
    bool const wide = a.channels % pack_width<T> == 0 && all_aligned(a.dy, a.dx);
    for_each<pack_width<T>>(body, small, wide, cuda_stream(stream));
  });
}

void pool_rows_forward(Stream& stream, PoolRowsForwardArgs const& a) {
  std::int64_t const count = a.batch * a.cols;
  declare_access(stream.native(), {reads(a.x, bytes(a.seq * count, a.dtype)), writes(a.y, bytes(count, a.dtype))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    SumRows<T> const body{count, a.begin, a.end, a.scale, static_cast<T const*>(a.x), static_cast<T*>(a.y)};
    bool const wide = count % pack_width<T> == 0 && all_aligned(a.x, a.y);
    for_each<pack_width<T>>(body, count, wide, cuda_stream(stream));
  });
}

void pool_rows_backward(Stream& stream, PoolRowsBackwardArgs const& a) {
  std::int64_t const count = a.batch * a.cols;
  declare_access(stream.native(), {reads(a.dy, bytes(count, a.dtype)), writes(a.dx, bytes(a.seq * count, a.dtype))});
  with_float_type(a.dtype, [&](auto element) {
    using T = decltype(element);
    SpreadRows<T> const body{count, a.begin, a.end, a.scale, static_cast<T const*>(a.dy), static_cast<T*>(a.dx)};
    bool const wide = count % pack_width<T> == 0 && all_aligned(a.dy, a.dx);
    for_each<pack_width<T>>(body, a.seq * count, wide, cuda_stream(stream));
  });
}

}  // namespace shardbench::cuda
