#include "kernels/activation/activation_math.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_host.hpp"

namespace shardbench::host {
namespace {

template <ActivationKind kind, class T>
void forward_row(T const* gate, T const* up, T* y, std::int64_t cols) {
  if (up == nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) y[c] = from_float<T>(activate<kind>(to_float(gate[c])).f);
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      y[c] = from_float<T>(activate<kind>(to_float(gate[c])).f * to_float(up[c]));
    }
  }
}

// dx may be x: each element is read before it is written, and gate and up are written after both were read.
template <ActivationKind kind, class T>
void backward_row(T const* dy, T const* gate, T const* up, T* dgate, T* dup, std::int64_t cols) {
  if (up == nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      dgate[c] = from_float<T>(to_float(dy[c]) * activate<kind>(to_float(gate[c])).slope);
    }
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      ActivationValue const value = activate<kind>(to_float(gate[c]));
      float const gradient = to_float(dy[c]), factor = to_float(up[c]);
      dgate[c] = from_float<T>(gradient * factor * value.slope);
      dup[c] = from_float<T>(gradient * value.f);
    }
  }
}

}  // namespace

void activation_forward(ActivationForwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  with_storage(args.dtype, "activation", [&]<class T>(T) {
    with_kind(args.kind, [&](auto kind) {
      for (std::int64_t r = 0; r < args.rows; ++r) {
        T const* const x = static_cast<T const*>(args.x) + r * x_cols;
        forward_row<decltype(kind)::value>(x, args.gated ? x + args.cols : nullptr,
                                           static_cast<T*>(args.y) + r * args.cols, args.cols);
      }
    });
  });
}

void activation_backward(ActivationBackwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  with_storage(args.dtype, "activation", [&]<class T>(T) {
    with_kind(args.kind, [&](auto kind) {
      for (std::int64_t r = 0; r < args.rows; ++r) {
        T const* const x = static_cast<T const*>(args.x) + r * x_cols;
        T* const dx = static_cast<T*>(args.dx) + r * x_cols;
        backward_row<decltype(kind)::value>(static_cast<T const*>(args.dy) + r * args.cols, x,
                                            args.gated ? x + args.cols : nullptr, dx, dx + args.cols, args.cols);
      }
    });
  });
}

}  // namespace shardbench::host
