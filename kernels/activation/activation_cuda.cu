#include "kernels/activation/activation_math.hpp"
#include "kernels/core/cuda/vec.hpp"
#include "kernels/core/storage.hpp"
#include "kernels/kernel_set_cuda.hpp"

namespace shardbench::cuda {
namespace {

/// y = f(x), or f(gate) * up from the two halves of a row. `i` counts elements of y; a pack never crosses a row.
template <class T, ActivationKind kind, bool gated>
struct Forward {
  ActivationForwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    T const* const gate = as<T>(a.x) + (gated ? i + i / a.cols * a.cols : i);
    float in[width], up[width], out[width];
    load<width>(gate, in);
    if constexpr (gated) load<width>(gate + a.cols, up);
    for (int j = 0; j < width; ++j) out[j] = activate<kind>(in[j]).f * (gated ? up[j] : 1.0f);
    store<width>(as<T>(a.y) + i, out);
  }
};

template <class T, ActivationKind kind, bool gated>
struct Backward {
  ActivationBackwardArgs a;

  template <int width>
  __device__ void at(std::int64_t i) const {
    std::int64_t const at_gate = gated ? i + i / a.cols * a.cols : i;
    float in[width], up[width], gradient[width], dgate[width], dup[width];
    load<width>(as<T>(a.dy) + i, gradient);
    load<width>(as<T>(a.x) + at_gate, in);
    if constexpr (gated) load<width>(as<T>(a.x) + at_gate + a.cols, up);
    for (int j = 0; j < width; ++j) {
      ActivationValue const value = activate<kind>(in[j]);
      dgate[j] = gradient[j] * value.slope * (gated ? up[j] : 1.0f);
      dup[j] = gradient[j] * value.f;
    }
    store<width>(as<T>(a.dx) + at_gate, dgate);
    if constexpr (gated) store<width>(as<T>(a.dx) + at_gate + a.cols, dup);
  }
};

/// Runs Body<T, kind, gated>{args} for the arguments' type, kind and gate, in packs where none crosses from gate to up.
template <template <class, ActivationKind, bool> class Body, class Args>
void for_each_activation(Stream& stream, Args const& args, bool aligned) {
  with_float_type(args.dtype, [&](auto element) {
    using T = decltype(element);
    bool const wide = aligned && (!args.gated || args.cols % pack_width<T> == 0);
    with_kind(args.kind, [&](auto kind) {
      with_flag(args.gated, [&](auto gated) {
        Body<T, decltype(kind)::value, decltype(gated)::value> const body{args};
        for_each<pack_width<T>>(body, args.rows * args.cols, wide, cuda_stream(stream));
      });
    });
  });
}

std::size_t bytes(std::int64_t rows, std::int64_t cols, Dtype dtype) {
  return span_bytes(rows, cols, cols, bytes_of(dtype));
}

}  // namespace

void activation_forward(Stream& stream, ActivationForwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  declare_access(stream.native(), {reads(args.x, bytes(args.rows, x_cols, args.dtype)),
                                   writes(args.y, bytes(args.rows, args.cols, args.dtype))});
  for_each_activation<Forward>(stream, args, all_aligned(args.x, args.y));
}

void activation_backward(Stream& stream, ActivationBackwardArgs const& args) {
  std::int64_t const x_cols = args.gated ? 2 * args.cols : args.cols;
  declare_access(stream.native(), {reads(args.dy, bytes(args.rows, args.cols, args.dtype)),
                                   reads(args.x, bytes(args.rows, x_cols, args.dtype)),
                                   writes(args.dx, bytes(args.rows, x_cols, args.dtype))});
  for_each_activation<Backward>(stream, args, all_aligned(args.dy, args.x, args.dx));
}

}  // namespace shardbench::cuda
