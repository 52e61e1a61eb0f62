#include "kernels/activation/activation_math.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// y = f(x), or f(gate) * up from the two halves of a row. `i` counts elements of y; a pack never crosses a row.
template <class T, ActivationKind kind, bool gated>
struct Forward {
  T const* x;
  T* y;
  std::int64_t cols;

  template <int width>
  __device__ void at(std::int64_t i) const {
    T const* const gate = gated ? x + i + i / cols * cols : x + i;
    float in[width], up[width], out[width];
    load<width>(gate, in);
    if constexpr (gated) load<width>(gate + cols, up);
    for (int j = 0; j < width; ++j) out[j] = activate<kind>(in[j]).f * (gated ? up[j] : 1.0f);
    store<width>(y + i, out);
  }
};

template <class T, ActivationKind kind, bool gated>
struct Backward {
  T const* dy;
  T const* x;
  T* dx;
  std::int64_t cols;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const at_gate = gated ? i + i / cols * cols : i;
    float in[width], up[width], gradient[width], dgate[width], dup[width];
    load<width>(dy + i, gradient);
    load<width>(x + at_gate, in);
    if constexpr (gated) load<width>(x + at_gate + cols, up);
    for (int j = 0; j < width; ++j) {
      ActivationValue const value = activate<kind>(in[j]);
      dgate[j] = gradient[j] * value.slope * (gated ? up[j] : 1.0f);
      dup[j] = gradient[j] * value.f;
    }
    store<width>(dx + at_gate, dgate);
    if constexpr (gated) store<width>(dx + at_gate + cols, dup);
  }
};

template <ActivationKind value>
struct Kind {
  static constexpr ActivationKind kind = value;
};

template <class Body>
void with_kind(ActivationKind kind, Body const& body) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return body(Kind<ActivationKind::gelu_tanh>{});
    case ActivationKind::gelu_erf:
      return body(Kind<ActivationKind::gelu_erf>{});
    case ActivationKind::silu:
      return body(Kind<ActivationKind::silu>{});
  }
}

template <class T>
bool packs_fit(bool gated, std::int64_t cols) {
  return !gated || cols % pack_width<T> == 0;
}

std::size_t bytes(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return span_bytes(rows, cols, cols, bytes_of(dtype));
}

}  // namespace

void activation_forward(Stream& stream, ActivationForwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  declare_access(stream.native(), {reads(args.x, bytes(args.rows, x_cols, args.dtype)),
                                   writes(args.y, bytes(args.rows, args.cols, args.dtype))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    bool const wide = packs_fit<T>(args.gated, args.cols) && all_aligned(args.x, args.y);
    with_kind(args.kind, [&](auto tag) {
      auto const run = [&](auto body) {
        for_each<pack_width<T>>(body, args.rows * args.cols, wide, cuda_stream(stream));
      };
      constexpr ActivationKind kind = decltype(tag)::kind;
      auto const* x = static_cast<T const*>(args.x);
      auto* y = static_cast<T*>(args.y);
      if (args.gated) {
        run(Forward<T, kind, true>{x, y, args.cols});
      } else {
        run(Forward<T, kind, false>{x, y, args.cols});
      }
    });
  });
}

void activation_backward(Stream& stream, ActivationBackwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  declare_access(stream.native(), {reads(args.dy, bytes(args.rows, args.cols, args.dtype)),
                                   reads(args.x, bytes(args.rows, x_cols, args.dtype)),
                                   writes(args.dx, bytes(args.rows, x_cols, args.dtype))});
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    bool const wide = packs_fit<T>(args.gated, args.cols) && all_aligned(args.dy, args.x, args.dx);
    with_kind(args.kind, [&](auto tag) {
      auto const run = [&](auto body) {
        for_each<pack_width<T>>(body, args.rows * args.cols, wide, cuda_stream(stream));
      };
      constexpr ActivationKind kind = decltype(tag)::kind;
      auto const* dy = static_cast<T const*>(args.dy);
      auto const* x = static_cast<T const*>(args.x);
      auto* dx = static_cast<T*>(args.dx);
      if (args.gated) {
        run(Backward<T, kind, true>{dy, x, dx, args.cols});
      } else {
        run(Backward<T, kind, false>{dy, x, dx, args.cols});
      }
    });
  });
}

}  // namespace shardbench::cuda
