#pragma once
#include <cuda_runtime.h>

#include "kernels/core/cuda/launch.hpp"
#include "kernels/core/dtype.hpp"

namespace shardbench {

/// As many elements as one 16-byte access moves.
template <class T>
constexpr int pack_width = static_cast<int>(16 / sizeof(T));

/// 16 bytes of T, moved by one instruction.
template <class T>
struct alignas(16) Pack {
  T values[pack_width<T>];
};

/// Reads `width` elements as float; 16 bytes at a time where `width` fills whole packs (`from` must then be aligned).
template <int width, class T>
__device__ inline void load(T const* from, float (&to)[width]) {
  if constexpr (width % pack_width<T> == 0) {
    for (int p = 0; p < width / pack_width<T>; ++p) {
      Pack<T> const pack = reinterpret_cast<Pack<T> const*>(from)[p];
      for (int i = 0; i < pack_width<T>; ++i) to[p * pack_width<T> + i] = to_float(pack.values[i]);
    }
  } else {
    for (int i = 0; i < width; ++i) to[i] = to_float(from[i]);
  }
}

/// Writes `width` floats rounded to T; same alignment rule as load.
template <int width, class T>
__device__ inline void store(T* to, float const (&from)[width]) {
  if constexpr (width % pack_width<T> == 0) {
    for (int p = 0; p < width / pack_width<T>; ++p) {
      Pack<T> pack;
      for (int i = 0; i < pack_width<T>; ++i) pack.values[i] = from_float<T>(from[p * pack_width<T> + i]);
      reinterpret_cast<Pack<T>*>(to)[p] = pack;
    }
  } else {
    for (int i = 0; i < width; ++i) to[i] = from_float<T>(from[i]);
  }
}

/// True when every pointer (null counts) can take 16-byte accesses.
template <class... Pointers>
bool all_aligned(Pointers const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Grid-stride loop of `body.at<width>(first)` over [0, count) in steps of `width`, then the tail one by one.
template <int width, class Body>
__global__ void for_each_kernel(Body body, std::int64_t count) {
  std::int64_t const thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t const threads = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t const packs = count / width;
  for (std::int64_t p = thread; p < packs; p += threads) body.template at<width>(p * width);
  if constexpr (width > 1) {
    for (std::int64_t i = packs * width + thread; i < count; i += threads) body.template at<1>(i);
  }
}

/// Runs an element-wise body over `count` elements, `width` at a time when `wide`.
template <int width, class Body>
void for_each(Body const& body, std::int64_t count, bool wide, CudaStream& stream) {
  if (count == 0) return;
  if (wide) {
    std::int64_t const packs = (count + width - 1) / width;
    launch(for_each_kernel<width, Body>, dim3(grid_for(packs, block_for(packs))), block_for(packs), stream, body,
           count);
  } else {
    launch(for_each_kernel<1, Body>, dim3(grid_for(count, block_for(count))), block_for(count), stream, body, count);
  }
}

/// Runs `Body<T>{args, more...}`, T being the storage type of args.dtype, over `count` elements: in packs where rows of
/// `cols` elements hold whole ones and `tensors` are aligned.
template <template <class> class Body, class Args, class... More>
void for_each_element(Stream& stream, Args const& args, std::int64_t count, std::int64_t cols,
                      std::initializer_list<void const*> tensors, More const&... more) {
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    bool const aligned = std::ranges::all_of(tensors, [](void const* tensor) { return all_aligned(tensor); });
    for_each<pack_width<T>>(Body<T>{args, more...}, count, cols % pack_width<T> == 0 && aligned, cuda_stream(stream));
  });
}

}  // namespace shardbench
