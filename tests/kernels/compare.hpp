#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/element.hpp"
#include "kernels/core/stream_host.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench::test {

/// A flat tensor in host memory, in any floating dtype.
class Tensor {
 public:
  /// Filled with NaN, so that an element nobody wrote is seen.
  Tensor(Dtype dtype, std::int64_t count)
      : dtype_(dtype), count_(count), storage_(static_cast<std::size_t>(count) * bytes_of(dtype) / 8 + 1) {
    std::memset(storage_.data(), 0xff, storage_.size() * 8);
  }
  /// Normal numbers of the counter generator times `scale`, plus `shift`; the same key gives the same values.
  static Tensor random(Dtype dtype, std::int64_t count, std::uint64_t key, double scale = 1, double shift = 0) {
    Tensor tensor(dtype, count);
    for (std::int64_t i = 0; i < count; ++i) {
      double const value = static_cast<double>(random_normal(key, static_cast<std::uint64_t>(i)));
      tensor.set(i, static_cast<double>(static_cast<float>(scale * value + shift)));
    }
    return tensor;
  }
  /// The same values in another dtype.
  Tensor as(Dtype dtype) const {
    Tensor tensor(dtype, count_);
    for (std::int64_t i = 0; i < count_; ++i) tensor.set(i, at(i));
    return tensor;
  }
  Dtype dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }
  void* data() { return storage_.data(); }
  void const* data() const { return storage_.data(); }
  float* floats() {
    EXPECT_EQ(dtype_, Dtype::f32);
    return static_cast<float*>(data());
  }
  double at(std::int64_t i) const { return read_element(data(), dtype_, i); }
  void set(std::int64_t i, double value) { write_element(data(), dtype_, i, value); }

 private:
  Dtype dtype_;
  std::int64_t count_;
  std::vector<double> storage_;
};

/// Largest error that a correct result may have: a flip between neighbours when `dtype` is rounded to, and fp32
/// accumulation over `terms` addends.
inline double tolerance(Dtype dtype, std::int64_t terms = 1) {
  double const accumulation = unit_roundoff(Dtype::f32) * (16 + 4 * std::sqrt(static_cast<double>(terms)));
  return accumulation + (dtype == Dtype::bf16 ? 2.05 * unit_roundoff(Dtype::bf16) : 0.0);
}

/// Whether |a - b| / (|b| + rms of b) stays below `limit` for every element. Elements that the reference left poisoned
/// must be so in both, and must be `untouched` in number; a result that is nearly all zeros is no evidence and fails.
inline ::testing::AssertionResult close(Tensor const& actual, Tensor const& expected, double limit,
                                        std::int64_t untouched = 0) {
  if (actual.count() != expected.count()) return ::testing::AssertionFailure() << "sizes differ";
  std::int64_t poisoned = 0, nonzero = 0, finite = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    double const value = expected.at(i);
    poisoned += std::isnan(value) ? 1 : 0;
    if (!std::isfinite(value)) continue;
    ++finite;
    nonzero += value != 0 ? 1 : 0;
    squares += value * value;
  }
  if (poisoned != untouched) return ::testing::AssertionFailure() << poisoned << " elements unwritten";
  if (finite > 0 && 10 * nonzero < finite) return ::testing::AssertionFailure() << "nearly empty: no evidence";
  double const rms = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    double const a = actual.at(i), b = expected.at(i);
    bool const same =
        std::isfinite(b) ? std::abs(a - b) <= limit * (std::abs(b) + rms) : (std::isnan(b) ? std::isnan(a) : a == b);
    if (!same) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a << " for " << b << ", relative error "
                                           << std::abs(a - b) / (std::abs(b) + rms) << " above " << limit;
    }
  }
  return ::testing::AssertionSuccess();
}

/// Runs one kernel to its end; what it threw is thrown here.
template <class Args>
void run(void (*kernel)(Stream&, Args const&), Args const& args) {
  InlineStream stream;
  kernel(stream, args);
  stream.synchronize();
}

/// d loss / d x by central differences; `loss` reads x (fp64), which is restored.
template <class Loss>
Tensor finite_differences(Tensor& x, Loss loss) {
  constexpr double step = 1e-5;
  Tensor gradient(Dtype::f64, x.count());
  for (std::int64_t i = 0; i < x.count(); ++i) {
    double const value = x.at(i);
    x.set(i, value + step);
    double const above = loss();
    x.set(i, value - step);
    double const below = loss();
    x.set(i, value);
    gradient.set(i, (above - below) / (2 * step));
  }
  return gradient;
}

/// Sum of a * b.
inline double inner_product(Tensor const& a, Tensor const& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

/// fp32 gradients against finite differences: rounding of the backward pass dominates.
constexpr double gradient_tolerance = 2e-5;

constexpr Dtype storage_dtypes[] = {Dtype::f32, Dtype::bf16};

}  // namespace shardbench::test
