#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

/// Calls `body` with a value of the storage type that `dtype` names (float or Bf16); other dtypes throw.
template <class Body>
void with_storage(Dtype dtype, char const* kernel, Body&& body) {
  if (dtype == Dtype::f32) {
    body(float{});
  } else if (dtype == Dtype::bf16) {
    body(Bf16{});
  } else {
    throw Error(std::string(kernel) + " runs in fp32 and bf16, not in " + std::string(to_string(dtype)));
  }
}

/// Calls `body` with std::true_type or std::false_type, so that a loop is compiled for each case.
template <class Body>
void with_flag(bool flag, Body&& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

}  // namespace shardbench
