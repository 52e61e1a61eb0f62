#pragma once
// Branch-free elementary functions that compilers vectorise, shared by host and device kernels. The polynomials are
// Chebyshev fits in the stated intervals; accuracy is measured by tests/kernels/core/fast_math_test.cpp.
#include <cmath>
#include <cstdint>

#include "kernels/core/dtype.hpp"

namespace shardbench {

SB_HOST_DEVICE inline std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

SB_HOST_DEVICE inline float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

/// e^x within 3e-7 of its value; 0 below -87.3 (also at -infinity), infinity above 88.3, NaN stays NaN.
SB_HOST_DEVICE inline float fast_exp(float x) {
  constexpr float lowest = -87.3f, highest = 88.3f;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits: no conversion instruction, no undefined cast.
  constexpr float magic = 12582912.0f;
  float const bounded = x < lowest ? lowest : x > highest ? highest : x;
  float const shifted = bounded * 1.44269504f + magic;
  float const n = shifted - magic;
  float const r = (bounded - n * 0.693359375f) + n * 2.1219444e-4f;  // ln 2 in two parts, the first with 9 bits
  float p = 1.394121310e-3f;                                         // e^r on [-ln2/2, ln2/2]
  p = p * r + 8.375210201e-3f;
  p = p * r + 4.166635164e-2f;
  p = p * r + 1.666641451e-1f;
  p = p * r + 5.000000047e-1f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  float const value = p * float_of((bits_of(shifted) << 23) + 0x3f800000u);
  return x < lowest ? 0.0f : x > highest ? float_of(0x7f800000u) : value;
}

/// tanh within 4e-7 of its value.
SB_HOST_DEVICE inline float fast_tanh(float x) {
  float const magnitude = float_of(bits_of(x) & 0x7fffffffu);
  float const z = x * x;
  float p = -5.465067517e-3f;  // tanh(x) / x in x^2 on [0, 0.65^2]
  p = p * z + 2.041179991e-2f;
  p = p * z - 5.366401976e-2f;
  p = p * z + 1.333039600e-1f;
  p = p * z - 3.333322825e-1f;
  float const small = p * z * x + x;
  float const large = 1.0f - 2.0f / (1.0f + fast_exp(2.0f * magnitude));
  return magnitude < 0.625f ? small : float_of(bits_of(large) | (bits_of(x) & 0x80000000u));
}

/// erf within 4e-7 of its value.
SB_HOST_DEVICE inline float fast_erf(float x) {
  float const magnitude = float_of(bits_of(x) & 0x7fffffffu);
  float const z = x * x;
  float p = 7.875875047e-5f;  // erf(x) / x in x^2 on [0, 1]
  p = p * z - 8.016864282e-4f;
  p = p * z + 5.189087423e-3f;
  p = p * z - 2.685421201e-2f;
  p = p * z + 1.128359472e-1f;
  p = p * z - 3.761262667e-1f;
  p = p * z + 1.128379166f;
  float const t = 2.0f / (2.0f + magnitude);
  float q = 7.406618501e-2f;  // erfc(x) e^(x^2) in t = 2 / (2 + x) for x on [1, 10]
  q = q * t - 1.626377452e-1f;
  q = q * t - 6.260174176e-3f;
  q = q * t + 1.296518838e-1f;
  q = q * t + 1.466077763e-1f;
  q = q * t + 2.562982719e-1f;
  q = q * t + 2.804047092e-1f;
  q = q * t + 2.822562863e-1f;
  q = q * t - 6.433823094e-6f;
  float const large = 1.0f - q * fast_exp(-z);
  return magnitude < 1.0f ? p * x : float_of(bits_of(large) | (bits_of(x) & 0x80000000u));
}

/// sine and cosine of one angle.
struct SineCosine {
  float sine, cosine;
};

/// Within 3e-7 for |angle| up to 2^30; the angle is reduced in double, since a position can be a million radians.
SB_HOST_DEVICE inline SineCosine fast_sincos(double angle) {
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52, as in fast_exp
  double const shifted = angle * 0.63661977236758134308 + magic;
  double const n = shifted - magic;
  float const r = static_cast<float>((angle - n * 1.5707963267948966) - n * 6.123233995736766e-17);
#ifdef __CUDA_ARCH__
  auto const quadrant = static_cast<std::uint32_t>(__double_as_longlong(shifted));
#else
  auto const quadrant = static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(shifted));
#endif
  float const z = r * r;
  float s = -1.949717645e-4f;
  s = s * z + 8.331983374e-3f;
  s = s * z - 1.666664969e-1f;
  s = s * z * r + r;
  float c = 2.437141945e-5f;
  c = c * z - 1.388652627e-3f;
  c = c * z + 4.166661363e-2f;
  c = c * z - 5.0e-1f;
  c = c * z + 1.0f;
  float const sine = (quadrant & 1u) != 0 ? c : s;
  float const cosine = (quadrant & 1u) != 0 ? s : c;
  return {float_of(bits_of(sine) ^ ((quadrant & 2u) << 30)),
          float_of(bits_of(cosine) ^ (((quadrant + 1u) & 2u) << 30))};
}

}  // namespace shardbench
