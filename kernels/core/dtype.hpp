#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef __CUDACC__
#define SB_HOST_DEVICE __host__ __device__
#else
#define SB_HOST_DEVICE
#endif

namespace shardbench {

/// Element types of tensors. `fp8` is e4m3, `fp8_e5m2` the format of gradients; both are inputs of products only.
enum class Dtype : std::uint8_t { f32, bf16, f64, i32, u8, fp8, fp8_e5m2, size_ };

/// Bytes of one element.
constexpr std::size_t bytes_of(Dtype t) {
  constexpr std::size_t bytes[] = {4, 2, 8, 4, 1, 1, 1};
  static_assert(sizeof bytes / sizeof *bytes == static_cast<std::size_t>(Dtype::size_));
  return bytes[static_cast<std::size_t>(t)];
}

/// The name used on the command line and in reports ("fp32", "bf16", ...).
constexpr std::string_view to_string(Dtype t) {
  constexpr std::string_view names[] = {"fp32", "bf16", "fp64", "int32", "uint8", "fp8", "fp8-e5m2"};
  static_assert(sizeof names / sizeof *names == static_cast<std::size_t>(Dtype::size_));
  return names[static_cast<std::size_t>(t)];
}

constexpr bool is_fp8(Dtype t) { return t == Dtype::fp8 || t == Dtype::fp8_e5m2; }

/// Unit round-off of a dtype: half the distance between 1 and the next number.
constexpr double unit_roundoff(Dtype t) {
  return t == Dtype::f64        ? 0x1p-53
         : t == Dtype::bf16     ? 0x1p-8
         : t == Dtype::fp8      ? 0x1p-4
         : t == Dtype::fp8_e5m2 ? 0x1p-3
                                : 0x1p-24;
}

/// bfloat16 storage; arithmetic is done in float.
struct Bf16 {
  std::uint16_t bits = 0;
};

/// Exact widening.
SB_HOST_DEVICE inline float to_float(Bf16 x) {
  std::uint32_t const wide = std::uint32_t{x.bits} << 16;
#ifdef __CUDA_ARCH__
  return __uint_as_float(wide);
#else
  return std::bit_cast<float>(wide);
#endif
}
SB_HOST_DEVICE inline float to_float(float x) { return x; }

/// Round to nearest, ties to even; NaN stays NaN.
SB_HOST_DEVICE inline Bf16 to_bf16(float x) {
#ifdef __CUDA_ARCH__
  std::uint32_t const wide = __float_as_uint(x);
#else
  std::uint32_t const wide = std::bit_cast<std::uint32_t>(x);
#endif
  if ((wide & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((wide >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}

/// Narrowing to a storage type.
template <class T>
SB_HOST_DEVICE inline T from_float(float x);
template <>
SB_HOST_DEVICE inline float from_float<float>(float x) {
  return x;
}
template <>
SB_HOST_DEVICE inline Bf16 from_float<Bf16>(float x) {
  return to_bf16(x);
}

}  // namespace shardbench
