#pragma once
// The two 8-bit formats of Micikevicius et al., "FP8 Formats for Deep Learning" (2022).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// How a format cuts its 8 bits. e4m3 has no infinities: only all ones is NaN, so its largest number is 448.
struct Fp8Format {
  int mantissa_bits, bias;
  float largest;
};

constexpr Fp8Format fp8_format(Dtype dtype) {
  return dtype == Dtype::fp8 ? Fp8Format{3, 7, 448.0f} : Fp8Format{2, 15, 57344.0f};
}

/// Exact widening.
inline float fp8_to_float(std::uint8_t bits, Dtype dtype) {
  Fp8Format const format = fp8_format(dtype);
  int const magnitude = bits & 0x7f, mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  int const exponent = magnitude >> format.mantissa_bits;
  bool const all_ones = dtype == Dtype::fp8 ? magnitude == 0x7f : exponent == 31;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits)
                              : std::ldexp(static_cast<float>(mantissa + (1 << format.mantissa_bits)),
                                           exponent - format.bias - format.mantissa_bits);
  if (all_ones)
    value = dtype == Dtype::fp8 || mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
  return (bits & 0x80) != 0 ? -value : value;
}

/// Round to nearest, ties to even; what is too large becomes the largest number, NaN stays NaN.
inline std::uint8_t to_fp8(float value, Dtype dtype) {
  Fp8Format const format = fp8_format(dtype);
  int const sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7f);
  float const magnitude = std::min(std::abs(value), format.largest);
  int exponent = 0;
  static_cast<void>(std::frexp(magnitude, &exponent));
  exponent = std::max(exponent - 1, 1 - format.bias);  // below it numbers lose digits instead
  // In units of the last digit; the default rounding of nearbyint is to nearest, ties to even.
  int const digits = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  int const hidden = 1 << format.mantissa_bits;
  // A sum instead of fields: a mantissa that rounds up to the next power of two carries into the exponent.
  int const bits = digits < hidden ? digits : ((exponent + format.bias - 1) << format.mantissa_bits) + digits;
  return static_cast<std::uint8_t>(sign | bits);
}

}  // namespace shardbench
