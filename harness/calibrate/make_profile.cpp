#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harness/calibrate/collective_fit.hpp"
#include "harness/calibrate/median.hpp"
#include "harness/calibrate/profile_text.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/simulate/gemm_time.hpp"

namespace shardbench {
namespace {

/// Relative errors of the GEMM formula over every third sample, or over the others.
std::vector<double> gemm_errors(DeviceProfile const& device, MachineMeasurement const& m, bool held_out) {
  std::vector<double> errors;
  double const element = static_cast<double>(bytes_of(m.precision));
  for (std::size_t i = 0; i < m.gemm.size(); ++i) {
    GemmSample const& s = m.gemm[i];
    if ((i % 3 == 2) != held_out) continue;
    errors.push_back(std::abs(gemm_us(device, m.precision, s.m, s.n, s.k, element, element) / s.us - 1));
  }
  return errors;
}

double gemm_loss(DeviceProfile const& device, MachineMeasurement const& m) {
  double sum = 0;
  for (double const e : gemm_errors(device, m, false)) sum += std::min(e, 1.0);
  return sum;
}

/// Coordinate search from where the parameters stand: each in turn is moved by a factor that shrinks. Returns the loss.
double search_gemm(DeviceProfile& device, MachineMeasurement const& m) {
  GemmProfile& g = device.gemm[m.precision];
  struct Knob {
    double* value;
    double low, high;
  };
  std::array const knobs{Knob{&g.max_efficiency, 0.05, 1}, Knob{&g.k_overhead, 0.01, 1e4},
                         Knob{&g.small_tile_penalty, 1e-4, 0.5}, Knob{&g.launch_us, 0.01, 1e3}};
  double best = gemm_loss(device, m);
  for (double factor = 2; factor > 1.005; factor = std::sqrt(factor))
    for (int round = 0; round < 8; ++round) {
      double const before = best;
      for (Knob const& knob : knobs)
        for (double const by : {factor, 1 / factor}) {
          double const old = *knob.value;
          *knob.value = std::clamp(old * by, knob.low, knob.high);
          double const loss = gemm_loss(device, m);
          if (loss < best)
            best = loss;
          else
            *knob.value = old;
        }
      if (best >= before) break;
    }
  return best;
}

/// The best of searches from several places: the loss has valleys.
void fit_gemm(DeviceProfile& device, MachineMeasurement const& m) {
  GemmProfile const start = device.gemm[m.precision];
  GemmProfile best = start;
  double least = HUGE_VAL;
  for (double const k_overhead : {1.0, 20.0, 150.0})
    for (double const penalty : {0.005, 0.05, 0.2})
      for (double const launch_us : {0.5, 5.0}) {
        GemmProfile& g = device.gemm[m.precision] = start;
        g.k_overhead = k_overhead, g.small_tile_penalty = penalty, g.launch_us = launch_us;
        double const loss = search_gemm(device, m);
        if (loss < least) least = loss, best = g;
      }
  device.gemm[m.precision] = best;
}

double best_tflops(MachineMeasurement const& m) {
  double best = 0;
  for (GemmSample const& s : m.gemm) best = std::max(best, 2 * s.m * s.n * s.k / s.us / 1e6);
  return best;
}

std::vector<MeasuredTimes> times_of(std::vector<MeasuredCurve> const& curves) {
  std::vector<MeasuredTimes> all;
  for (MeasuredCurve const& curve : curves) {
    MeasuredTimes& times = all.emplace_back(MeasuredTimes{std::string(to_string(curve.kind)), curve.ranks, {}});
    for (NcclPoint const& p : curve.points) times.points.push_back({p.bytes, p.time_us});
  }
  return all;
}

DeviceProfile make_device(MachineMeasurement const& m) {
  DeviceProfile d;
  d.name = m.device;
  d.peak_tflops[m.precision] = best_tflops(m);
  d.memory_gb = m.memory_bytes / 1e9 / static_cast<double>(m.backend == "cuda" ? 1 : m.ranks_per_host);
  d.memory_gb_per_s = m.copy_gb_per_s;
  d.memory_efficiency = 1;
  d.launch_us = m.launch_us;
  d.processors = 1;
  d.overlap_slowdown = m.overlap_slowdown;
  d.excess = m.excess;
  d.gemm[m.precision] = {
      0.9, 10, 0, 0.05, 1, 1, "products measured by calibrate; the best of them is taken for the peak"};
  fit_gemm(d, m);
  d.products = m.products;
  d.kernels = times_of(m.kernels);
  return d;
}

/// Wire rate of the largest message of a curve beyond its fixed time, GB/s.
double wire_rate(MeasuredCurve const& curve) {
  NcclPoint const& last = curve.points.back();
  double const fixed = std::min(curve.points.front().time_us, 0.5 * last.time_us);
  return ring_wire_bytes(curve.kind, last.bytes, curve.ranks) / (last.time_us - fixed) / 1e3;
}

MeasuredCurve const* find_curve(MeasuredLevel const& level, OpKind kind, std::int64_t ranks) {
  for (MeasuredCurve const& c : level.curves)
    if (c.kind == kind && (ranks == 0 || c.ranks == ranks) && !c.points.empty()) return &c;
  return nullptr;
}

/// The formulas' parameters, for groups and sizes that were not measured.
NetworkLevel make_level(MeasuredLevel const& measured, std::string const& communication) {
  NetworkLevel level;
  level.name = measured.name;
  level.devices = measured.devices;
  for (MeasuredCurve const& c : measured.curves)
    if (!c.points.empty()) level.bandwidth_gb_per_s = std::max(level.bandwidth_gb_per_s, wire_rate(c));
  auto const share = [&](OpKind kind) {
    MeasuredCurve const* const c = find_curve(measured, kind, 0);
    return c ? std::clamp(wire_rate(*c) / level.bandwidth_gb_per_s, 1e-6, 1.0) : 1.0;
  };
  level.efficiency = share(OpKind::all_reduce);
  level.message_efficiency = share(OpKind::send);
  level.exchange_efficiency = share(OpKind::all_to_all);
  if (MeasuredCurve const* const message = find_curve(measured, OpKind::send, 2))
    level.start_us = message->points.front().time_us;
  if (MeasuredCurve const* const reduce = find_curve(measured, OpKind::all_reduce, 0)) {
    double const steps = 2 * static_cast<double>(reduce->ranks - 1);
    level.latency_us = std::max(0.0, (reduce->points.front().time_us - level.start_us) / steps);
    CollectiveFit const fit = fit_collective(reduce->points);
    if (fit.refusal.empty()) level.ramp_us = std::min(1e6, fit.knee_bytes / fit.bandwidth_gb_per_s / 1e3);
  }
  level.tree_us = 2 * level.latency_us;
  level.source = fmt::format("measured by calibrate over {}", communication);
  level.measured = times_of(measured.curves);
  return level;
}

}  // namespace

CalibratedProfile make_profile(MachineMeasurement const& m, std::string name) {
  CalibratedProfile out;
  SystemProfile& p = out.profile;
  p.name = std::move(name);
  p.description = fmt::format("{} rank{} of {}, {} on a host, {}", m.ranks, m.ranks == 1 ? "" : "s", m.device,
                              m.ranks_per_host, m.communication);
  p.device = make_device(m);
  for (MeasuredLevel const& level : m.levels) p.network.push_back(make_level(level, m.communication));
  if (p.network.empty()) {
    // One rank crosses nothing, and a profile has a level all the same.
    NetworkLevel none;
    none.name = "none", none.bandwidth_gb_per_s = std::max(1e-6, m.copy_gb_per_s);
    none.efficiency = none.message_efficiency = none.exchange_efficiency = 1;
    none.source = "one rank was calibrated: memory copies stand for messages";
    p.network.push_back(none);
  }
  p.sources = {"shardbench calibrate on this machine"};
  out.gemm_error_fit = median(gemm_errors(p.device, m, false));
  out.gemm_error_held_out = median(gemm_errors(p.device, m, true));
  return out;
}

}  // namespace shardbench
