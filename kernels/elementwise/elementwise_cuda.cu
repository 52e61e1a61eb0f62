#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

template <class T>
struct Add {
  AddArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    float x[width], y[width];
    load<width>(as<T>(a.a) + i, x);
    load<width>(as<T>(a.b) + i, y);
    for (int j = 0; j < width; ++j) x[j] += y[j] * a.scale;
    store<width>(as<T>(a.out) + i, x);
  }
};

/// Between float types.
template <class From, class To>
struct Convert {
  CopyBlockArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const row = i / a.cols, col = i - row * a.cols;
    float value[width];
    load<width>(as<From>(a.from) + row * a.from_stride + col, value);
    for (int j = 0; j < width; ++j) value[j] *= a.scale;
    store<width>(as<To>(a.to) + row * a.to_stride + col, value);
  }
};

/// Bits as they are, `Word` at a time: 16 bytes where all is aligned, else the element.
template <class Word>
struct Move {
  Word const* from;
  Word* to;
  std::int64_t cols, from_stride, to_stride;

  template <int width>
  __device__ void at(std::int64_t i) const {
    static_assert(width == 1);
    std::int64_t const row = i / cols, col = i - row * cols;
    to[row * to_stride + col] = from[row * from_stride + col];
  }
};

/// Whether rows of both sides are whole packs of `width` elements.
bool packs_fit(CopyBlockArgs const& a, std::int64_t width) {
  return all_aligned(a.from, a.to) && a.cols % width == 0 && a.from_stride % width == 0 && a.to_stride % width == 0;
}

template <class Word>
void move_words(CudaStream& stream, CopyBlockArgs const& args, std::int64_t elements_per_word) {
  Move<Word> const body{static_cast<Word const*>(args.from), static_cast<Word*>(args.to), args.cols / elements_per_word,
                        args.from_stride / elements_per_word, args.to_stride / elements_per_word};
  for_each<1>(body, args.rows * body.cols, false, stream);
}

void move_block(CudaStream& stream, CopyBlockArgs const& args) {
  auto const bytes = static_cast<std::int64_t>(bytes_of(args.from_dtype));
  std::int64_t const per_pack = 16 / bytes;
  if (packs_fit(args, per_pack)) return move_words<Pack<float>>(stream, args, per_pack);
  switch (bytes) {
    case 1:
      return move_words<std::uint8_t>(stream, args, 1);
    case 2:
      return move_words<std::uint16_t>(stream, args, 1);
    case 4:
      return move_words<std::uint32_t>(stream, args, 1);
    default:
      return move_words<std::uint64_t>(stream, args, 1);
  }
}

}  // namespace

void add(Stream& stream, AddArgs const& args) {
  std::size_t const bytes = args.count * bytes_of(args.dtype);
  declare_access(stream.native(), {reads(args.a, bytes), reads(args.b, bytes), writes(args.out, bytes)});
  for_each_element<Add>(stream, args, args.count, 0, {args.a, args.b, args.out});
}

void copy_block(Stream& stream, CopyBlockArgs const& args) {
  if (args.rows == 0 || args.cols == 0) return;
  CudaStream& queue = cuda_stream(stream);
  declare_access(stream.native(),
                 {reads(args.from, span_bytes(args.rows, args.cols, args.from_stride, bytes_of(args.from_dtype))),
                  writes(args.to, span_bytes(args.rows, args.cols, args.to_stride, bytes_of(args.to_dtype)))});
  if (args.from_dtype == args.to_dtype && args.scale == 1) return move_block(queue, args);
  with_float_type(args.from_dtype, [&](auto from) {
    with_float_type(args.to_dtype, [&](auto to) {
      constexpr int width = pack_width<Bf16>;
      Convert<decltype(from), decltype(to)> const body{args};
      for_each<width>(body, args.rows * args.cols, packs_fit(args, width), queue);
    });
  });
}

}  // namespace shardbench::cuda
