#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// One element of the keys; 16 bytes of them where every width and start allows.
template <class T>
struct Join {
  JoinKeysArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    LatentKeyShape const& s = a.shape;
    std::int64_t const key_dim = s.rotary_dim + s.plain_dim, d = i % key_dim, head = i / key_dim % s.heads,
                       row = i / key_dim / s.heads;
    float value[width];
    if (d < s.rotary_dim)
      load<width>(as<T>(a.rotary) + row * s.rotary_stride + d, value);
    else
      load<width>(as<T>(a.plain) + row * s.plain_stride + head * s.plain_dim + d - s.rotary_dim, value);
    store<width>(as<T>(a.keys) + i, value);
  }
};

template <class T>
struct SplitPlain {
  SplitKeysArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    LatentKeyShape const& s = a.shape;
    std::int64_t const d = i % s.plain_dim, head = i / s.plain_dim % s.heads, row = i / s.plain_dim / s.heads;
    float value[width];
    load<width>(as<T>(a.dkeys) + (row * s.heads + head) * (s.rotary_dim + s.plain_dim) + s.rotary_dim + d, value);
    store<width>(as<T>(a.dplain) + row * s.plain_stride + head * s.plain_dim + d, value);
  }
};

/// One thread sums one rotary element over the heads, in their order.
template <class T>
struct SplitRotary {
  SplitKeysArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    LatentKeyShape const& s = a.shape;
    std::int64_t const d = i % s.rotary_dim, row = i / s.rotary_dim, key_dim = s.rotary_dim + s.plain_dim;
    float sum[width] = {};
    for (std::int64_t h = 0; h < s.heads; ++h) {
      float value[width];
      load<width>(as<T>(a.dkeys) + (row * s.heads + h) * key_dim + d, value);
      for (int j = 0; j < width; ++j) sum[j] += value[j];
    }
    store<width>(as<T>(a.drotary) + row * s.rotary_stride + d, sum);
  }
};

template <class T>
bool widths_fit(LatentKeyShape const& s) {
  constexpr int width = pack_width<T>;
  return s.plain_dim % width == 0 && s.rotary_dim % width == 0 && s.plain_stride % width == 0 &&
         s.rotary_stride % width == 0;
}

std::size_t key_bytes(LatentKeyShape const& s) {
  return s.rows * s.heads * (s.rotary_dim + s.plain_dim) * bytes_of(s.dtype);
}
std::size_t plain_bytes(LatentKeyShape const& s) {
  return span_bytes(s.rows, s.heads * s.plain_dim, s.plain_stride, bytes_of(s.dtype));
}
std::size_t rotary_bytes(LatentKeyShape const& s) {
  return span_bytes(s.rows, s.rotary_dim, s.rotary_stride, bytes_of(s.dtype));
}

}  // namespace

void join_keys(Stream& stream, JoinKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  if (s.rows == 0 || s.heads == 0) return;
  declare_access(stream.native(), {reads(args.plain, plain_bytes(s)), reads(args.rotary, rotary_bytes(s)),
                                   writes(args.keys, key_bytes(s))});
  with_float_type(s.dtype, [&](auto type) {
    using T = decltype(type);
    bool const wide = widths_fit<T>(s) && all_aligned(args.plain, args.rotary, args.keys);
    for_each<pack_width<T>>(Join<T>{args}, s.rows * s.heads * s.key_dim(), wide, cuda_stream(stream));
  });
}

void split_keys(Stream& stream, SplitKeysArgs const& args) {
  LatentKeyShape const& s = args.shape;
  if (s.rows == 0 || s.heads == 0) return;
  declare_access(stream.native(), {reads(args.dkeys, key_bytes(s)), writes(args.dplain, plain_bytes(s)),
                                   writes(args.drotary, rotary_bytes(s))});
  with_float_type(s.dtype, [&](auto type) {
    using T = decltype(type);
    bool const wide = widths_fit<T>(s) && all_aligned(args.dkeys, args.dplain, args.drotary);
    for_each<pack_width<T>>(SplitPlain<T>{args}, s.rows * s.heads * s.plain_dim, wide, cuda_stream(stream));
    for_each<pack_width<T>>(SplitRotary<T>{args}, s.rows * s.rotary_dim, wide, cuda_stream(stream));
  });
}

}  // namespace shardbench::cuda
