#pragma once
#include <cstdint>
#include <string>

#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"

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
    default:
      throw Error("element access in " + std::string(to_string(dtype)) + " (allowed: fp32, bf16, fp64)");
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
    default:
      throw Error("element access in " + std::string(to_string(dtype)) + " (allowed: fp32, bf16, fp64)");
  }
}

}  // namespace shardbench
