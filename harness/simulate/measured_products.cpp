#include "harness/simulate/measured_products.hpp"

#include <cmath>

#include "harness/simulate/gemm_time.hpp"

namespace shardbench {
namespace {

/// Sums of weighted logarithms of measured over told.
class Correction {
 public:
  Correction(DeviceProfile const& device, Dtype precision, GemmShape const& shape)
      : device_(device),
        precision_(precision),
        at_{static_cast<double>(shape.m), static_cast<double>(shape.n), static_cast<double>(shape.k)} {}

  void add(MeasuredProducts const& products) {
    double const element = static_cast<double>(bytes_of(precision_));
    for (auto const& [m, n, k, us] : products.samples) {
      double const dm = std::log2(m / at_[0]), dn = std::log2(n / at_[1]), dk = std::log2(k / at_[2]);
      // Shapes this close are the same.
      constexpr double least = 1e-4;
      double const square = dm * dm + dn * dn + dk * dk + least, weight = 1 / (square * square);
      weights_ += weight;
      logs_ += weight * std::log(us / gemm_us(device_, precision_, m, n, k, element, element));
    }
  }
  bool empty() const { return weights_ == 0; }
  double factor() const { return empty() ? 1 : std::exp(logs_ / weights_); }

 private:
  DeviceProfile const& device_;
  Dtype precision_;
  double at_[3];
  double weights_ = 0, logs_ = 0;
};

}  // namespace

double product_correction(DeviceProfile const& device, Dtype precision, GemmShape const& shape) {
  Correction same(device, precision, shape), any(device, precision, shape);
  for (MeasuredProducts const& products : device.products) {
    any.add(products);
    if (products.transpose_a == shape.transpose_a && products.transpose_b == shape.transpose_b) same.add(products);
  }
  return same.empty() ? any.factor() : same.factor();
}

}  // namespace shardbench
