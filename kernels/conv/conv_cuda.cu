#include "kernels/conv/window_math.hpp"
#include "kernels/core/cuda/column_sum.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// Where a row of an output (or input) tensor lies in its picture.
struct Place {
  std::int64_t y, x, sample;
};
__device__ inline Place place_of(std::int64_t row, std::int64_t width, std::int64_t batch) {
  std::int64_t const at = row / batch;
  return {at / width, at % width, row - at * batch};
}

/// `i` counts elements of cols; a pack lies within one tap's channels.
template <class T>
struct Gather {
  Im2colArgs a;
  WindowSizes s;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels, taps = s.kernel * s.kernel, at = i / s.channels, tap = at % taps;
    Place const out = place_of(at / taps, s.out_width, s.batch);
    std::int64_t const y = s.input_of(out.y, tap / s.kernel), x = s.input_of(out.x, tap % s.kernel);
    float value[width] = {};
    if (s.inside(y, x)) load<width>(as<T>(a.x) + s.row(y, x, out.sample) * s.channels + c, value);
    store<width>(as<T>(a.cols) + i, value);
  }
};

/// Element `i` of an image is the sum over the output positions that see it: each adds weight (where there is one)
/// times what it has for that tap. Fixed order, no atomics.
template <class T, bool weighted>
struct Scatter {
  WindowSizes s;
  T const* from;    ///< cols, or dy when weighted
  T const* weight;  ///< [taps, channels]
  T* image;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels, taps = s.kernel * s.kernel;
    Place const in = place_of(i / s.channels, s.width, s.batch);
    float sum[width] = {}, value[width], factor[width];
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t const y = s.output_of(in.y, tap / s.kernel, s.out_height);
      std::int64_t const x = s.output_of(in.x, tap % s.kernel, s.out_width);
      if (y < 0 || x < 0) continue;
      std::int64_t const row = s.out_row(y, x, in.sample);
      load<width>(from + (weighted ? row : row * taps + tap) * s.channels + c, value);
      if constexpr (weighted) load<width>(weight + tap * s.channels + c, factor);
      for (int j = 0; j < width; ++j) sum[j] += weighted ? value[j] * factor[j] : value[j];
    }
    store<width>(image + i, sum);
  }
};

template <class T>
struct Depthwise {
  DepthwiseForwardArgs a;
  WindowSizes s;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const c = i % s.channels;
    Place const place = place_of(i / s.channels, s.out_width, s.batch);
    float sum[width] = {}, value[width], factor[width];
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      std::int64_t const y = s.input_of(place.y, tap / s.kernel), x = s.input_of(place.x, tap % s.kernel);
      if (!s.inside(y, x)) continue;
      load<width>(as<T>(a.x) + s.row(y, x, place.sample) * s.channels + c, value);
      load<width>(as<T>(a.weight) + tap * s.channels + c, factor);
      for (int j = 0; j < width; ++j) sum[j] += value[j] * factor[j];
    }
    store<width>(as<T>(a.y) + i, sum);
  }
};

/// What an output row adds to the gradient of weight element `col` = (tap, channel).
template <class T>
struct WeightTerm {
  DepthwiseBackwardArgs a;
  WindowSizes s;

  __device__ float operator()(std::int64_t row, std::int64_t col) const {
    std::int64_t const tap = col / s.channels, c = col - tap * s.channels;
    Place const out = place_of(row, s.out_width, s.batch);
    std::int64_t const y = s.input_of(out.y, tap / s.kernel), x = s.input_of(out.x, tap % s.kernel);
    if (!s.inside(y, x)) return 0.0f;
    return to_float(as<T>(a.dy)[row * s.channels + c]) * to_float(as<T>(a.x)[s.row(y, x, out.sample) * s.channels + c]);
  }
};

std::size_t image_bytes(WindowShape const& w, Dtype dtype) { return w.rows() * w.channels * bytes_of(dtype); }
std::size_t out_bytes(WindowShape const& w, Dtype dtype) { return w.out_rows() * w.channels * bytes_of(dtype); }
std::size_t weight_bytes(WindowShape const& w, Dtype dtype) { return w.taps() * w.channels * bytes_of(dtype); }
std::size_t cols_bytes(WindowShape const& w, Dtype dtype) {
  return w.out_rows() * w.taps() * w.channels * bytes_of(dtype);
}

template <class T, class... Pointers>
bool packs_fit(WindowShape const& w, Pointers const*... pointers) {
  return w.channels % pack_width<T> == 0 && all_aligned(pointers...);
}

}  // namespace

void im2col(Stream& stream, Im2colArgs const& args) {
  WindowShape const& w = args.window;
  declare_access(stream.native(),
                 {reads(args.x, image_bytes(w, args.dtype)), writes(args.cols, cols_bytes(w, args.dtype))});
  for_each_element<Gather>(stream, args, w.out_rows() * w.taps() * w.channels, w.channels, {args.x, args.cols},
                           sizes_of(w));
}

void col2im(Stream& stream, Col2imArgs const& args) {
  WindowShape const& w = args.window;
  declare_access(stream.native(),
                 {reads(args.cols, cols_bytes(w, args.dtype)), writes(args.x, image_bytes(w, args.dtype))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    Scatter<T, false> const body{sizes_of(w), static_cast<T const*>(args.cols), nullptr, static_cast<T*>(args.x)};
    for_each<pack_width<T>>(body, w.rows() * w.channels, packs_fit<T>(w, args.x, args.cols), cuda_stream(stream));
  });
}

void depthwise_forward(Stream& stream, DepthwiseForwardArgs const& args) {
  WindowShape const& w = args.window;
  declare_access(stream.native(),
                 {reads(args.x, image_bytes(w, args.dtype)), reads(args.weight, weight_bytes(w, args.dtype)),
                  writes(args.y, out_bytes(w, args.dtype))});
  for_each_element<Depthwise>(stream, args, w.out_rows() * w.channels, w.channels, {args.x, args.weight, args.y},
                              sizes_of(w));
}

void depthwise_backward(Stream& stream, DepthwiseBackwardArgs const& args) {
  WindowShape const& w = args.window;
  declare_access(stream.native(),
                 {reads(args.dy, out_bytes(w, args.dtype)), reads(args.x, image_bytes(w, args.dtype)),
                  reads(args.weight, weight_bytes(w, args.dtype)), writes(args.dx, image_bytes(w, args.dtype))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    Scatter<T, true> const body{sizes_of(w), as<T>(args.dy), as<T>(args.weight), as<T>(args.dx)};
    for_each<pack_width<T>>(body, w.rows() * w.channels, packs_fit<T>(w, args.dy, args.weight, args.dx),
                            cuda_stream(stream));
    sum_columns(cuda_stream(stream), WeightTerm<T>{args, sizes_of(w)}, args.dweight, w.out_rows(),
                w.taps() * w.channels, args.accumulate);
  });
}

}  // namespace shardbench::cuda
