#pragma once
#include <cstdint>
#include <string>

#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/fp8.hpp"

namespace shardbench {

/// Element i of a tensor in any floating dtype, as a double: what the reference kernels and their checks compute with.
inline double read_element(void const* data, Dtype dtype, std::int64_t i) {
  switch (dtype) {
    case Dtype::f32:
      return static_cast<double>(static_cast<float const*>(data)[i]);
    case Dtype::bf16:
      return static_cast<double>(to_float(static_cast<Bf16 const*>(data)[i]));
    case Dtype::f64:
      return static_cast<double const*>(data)[i];
    case Dtype::fp8:
    case Dtype::fp8_e5m2:
      return static_cast<double>(fp8_to_float(static_cast<std::uint8_t const*>(data)[i], dtype));
    default:
      throw Error("element access in " + std::string(to_string(dtype)) + " (allowed: fp32, bf16, fp64, fp8)");
  }
}

/// Rounds a double into element i.
inline void write_element(void* data, Dtype dtype, std::int64_t i, double value) {
  switch (dtype) {
    case Dtype::f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case Dtype::bf16:
      static_cast<Bf16*>(data)[i] = to_bf16(static_cast<float>(value));
      return;
    case Dtype::f64:
      static_cast<double*>(data)[i] = value;
      return;
    case Dtype::fp8:
    case Dtype::fp8_e5m2:
      static_cast<std::uint8_t*>(data)[i] = to_fp8(static_cast<float>(value), dtype);
      return;
    default:
      throw Error("element access in " + std::string(to_string(dtype)) + " (allowed: fp32, bf16, fp64, fp8)");
  }
}

}  // namespace shardbench
