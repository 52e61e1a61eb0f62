#include "kernels/pool/pool.hpp"

namespace shardbench {
namespace {

/// Both images touched once, and a byte for each tap that was chosen.
double pooled_bytes(WindowShape const& w, CostContext const& context) {
  return static_cast<double>(w.in_elements() + w.out_elements()) * width_of(context.precision) +
         static_cast<double>(w.out_elements());
}

std::int64_t small_elements(UpsampleShape const& s) { return s.height * s.width * s.batch * s.channels; }
std::int64_t large_elements(UpsampleShape const& s) { return small_elements(s) * s.factor * s.factor; }

/// `flops` an element of the pooled rows; `rows` of the long tensor and one of the short are touched.
OpCost rows_cost(PoolRowsShape const& s, CostContext const& context, double flops, std::int64_t rows) {
  std::int64_t const row = s.batch * s.cols;
  return {flops * static_cast<double>((s.end - s.begin) * row),
          static_cast<double>((rows + 1) * row) * width_of(context.precision)};
}

}  // namespace

OpCost MaxPoolForwardArgs::cost(WindowShape const& w, CostContext const& context) {
  return {static_cast<double>(w.taps() * w.out_elements()), pooled_bytes(w, context)};
}

MaxPoolForwardArgs MaxPoolForwardArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.out(0).data, b.out(1).as<std::uint8_t>(), b.precision};
}

OpCost MaxPoolBackwardArgs::cost(WindowShape const& w, CostContext const& context) {
  return {static_cast<double>(w.out_elements()), pooled_bytes(w, context)};
}

MaxPoolBackwardArgs MaxPoolBackwardArgs::bind(WindowShape const& w, Binding const& b) {
  return {w, b.in(0).data, b.in(1).as<std::uint8_t>(), b.out(0).data, b.precision};
}

OpCost UpsampleForwardArgs::cost(UpsampleShape const& s, CostContext const& context) {
  return {0, static_cast<double>(small_elements(s) + large_elements(s)) * width_of(context.precision)};
}

UpsampleForwardArgs UpsampleForwardArgs::bind(UpsampleShape const& s, Binding const& b) {
  return {s.height, s.width, s.batch, s.channels, s.factor, b.in(0).data, b.out(0).data, b.precision};
}

OpCost UpsampleBackwardArgs::cost(UpsampleShape const& s, CostContext const& context) {
  OpCost cost = UpsampleForwardArgs::cost(s, context);
  cost.flops = static_cast<double>(large_elements(s));
  return cost;
}

UpsampleBackwardArgs UpsampleBackwardArgs::bind(UpsampleShape const& s, Binding const& b) {
  return {s.height, s.width, s.batch, s.channels, s.factor, b.in(0).data, b.out(0).data, b.precision};
}

OpCost PoolRowsForwardArgs::cost(PoolRowsShape const& s, CostContext const& context) {
  return rows_cost(s, context, 2, s.end - s.begin);
}

PoolRowsForwardArgs PoolRowsForwardArgs::bind(PoolRowsShape const& s, Binding const& b) {
  return {s.seq, s.batch, s.cols, s.begin, s.end, s.scale, b.in(0).data, b.out(0).data, b.precision};
}

OpCost PoolRowsBackwardArgs::cost(PoolRowsShape const& s, CostContext const& context) {
  return rows_cost(s, context, 1, s.seq);
}

PoolRowsBackwardArgs PoolRowsBackwardArgs::bind(PoolRowsShape const& s, Binding const& b) {
  return {s.seq, s.batch, s.cols, s.begin, s.end, s.scale, b.in(0).data, b.out(0).data, b.precision};
}

}  // namespace shardbench
