#include <gtest/gtest.h>

#include <cmath>

#include "harness/calibrate/profile_text.hpp"
#include "harness/simulate/gemm_time.hpp"
#include "harness/simulate/measured_products.hpp"
#include "harness/simulate/network_time.hpp"

namespace shardbench {
namespace {

/// A machine whose products follow the formula with known parameters and whose collectives follow a straight line.
MachineMeasurement made_up_machine() {
  MachineMeasurement m;
  m.device = "a 'quoted' CPU", m.backend = "cpu", m.communication = "mpi";
  m.ranks = 2, m.ranks_per_host = 2, m.memory_bytes = 16e9, m.copy_gb_per_s = 10, m.launch_us = 0.5,
  m.overlap_slowdown = 0.25, m.excess = {0.125, -0.0625, 0};
  DeviceProfile truth;
  truth.name = "truth", truth.peak_tflops[Dtype::f32] = 0.1, truth.memory_gb_per_s = 10, truth.memory_efficiency = 1;
  truth.processors = 1;
  truth.gemm[Dtype::f32] = {0.8, 40, 0, 0.1, 3, 1, "made up"};
  for (double const rows : {32, 128, 512})
    for (double const columns : {256, 768, 3072})
      for (double const depth : {256, 768, 3072})
        m.gemm.push_back({rows, columns, depth, gemm_us(truth, Dtype::f32, rows, columns, depth, 4, 4)});
  m.products = {{false, true, {{64, 768, 768, 900}, {128, 768, 768, 1700}}}, {true, false, {{768, 768, 64, 1100}}}};
  m.kernels = {{OpKind::norm_forward, 1, {{1e4, 2}, {1e6, 150}}}};
  MeasuredLevel level{"within a host", 0, {}};
  for (OpKind const kind : {OpKind::all_reduce, OpKind::send}) {
    MeasuredCurve curve{kind, 2, {}};
    for (double bytes = 1024; bytes <= 64e6; bytes *= 4) curve.points.push_back({bytes, 10 + bytes / 2e3});
    level.curves.push_back(curve);
  }
  m.levels.push_back(level);
  return m;
}

// T08: a measured size has its own time; between sizes along the logarithms, beyond them by the last rate.
TEST(MeasuredTimes, InterpolatesAndExtends) {
  MeasuredTimes const times{"all_reduce", 2, {{1000, 10}, {4000, 40}, {16000, 20}, {32000, 40}}};
  EXPECT_EQ(times.us(1), 10);
  EXPECT_EQ(times.us(4000), 40);
  EXPECT_DOUBLE_EQ(times.us(2000), 20);
  EXPECT_DOUBLE_EQ(times.us(16000), 20);
  EXPECT_DOUBLE_EQ(times.us(64000), 80);
}

TEST(MakeProfile, FindsTheProductsOfTheMachine) {
  CalibratedProfile const c = make_profile(made_up_machine(), "made-up");
  EXPECT_LT(c.gemm_error_fit, 0.05);
  EXPECT_LT(c.gemm_error_held_out, 0.08);
}

TEST(MakeProfile, ReadsBackAsItWasWritten) {
  SystemProfile const p = make_profile(made_up_machine(), "made-up").profile;
  SystemProfile const again = parse_system_profile(profile_yaml(p), "made-up.yaml");
  EXPECT_EQ(again.name, p.name);
  EXPECT_EQ(again.device.name, p.device.name);
  EXPECT_NEAR(again.device.peak_tflops.at(Dtype::f32), p.device.peak_tflops.at(Dtype::f32), 1e-5);
  EXPECT_EQ(again.device.overlap_slowdown, 0.25);
  EXPECT_EQ(again.device.excess.tp, 0.125);
  EXPECT_EQ(again.device.excess.dp, -0.0625);
  ASSERT_EQ(again.device.kernels.size(), 1u);
  EXPECT_EQ(again.device.kernels[0].points, p.device.kernels[0].points);
  ASSERT_EQ(again.device.products.size(), 2u);
  EXPECT_TRUE(again.device.products[0].transpose_b && again.device.products[1].transpose_a);
  EXPECT_EQ(again.device.products[0].samples, p.device.products[0].samples);
  ASSERT_EQ(again.network.size(), 1u);
  EXPECT_NEAR(again.network[0].bandwidth_gb_per_s, p.network[0].bandwidth_gb_per_s, 1e-3);
  EXPECT_EQ(again.network[0].measured.size(), 2u);
  EXPECT_EQ(profile_yaml(again), profile_yaml(p));
}

// A product of a measured shape and layout takes the measured time, one near it almost the same correction, and a
// machine without samples the formula.
TEST(ProductCorrection, SamplesCorrectTheFormulaNearThem) {
  DeviceProfile device = make_profile(made_up_machine(), "made-up").profile.device;
  auto const told_us = [&](GemmShape const& s) {
    return gemm_us(device, Dtype::f32, static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k), 4,
                   4) *
           product_correction(device, Dtype::f32, s);
  };
  EXPECT_NEAR(told_us({64, 768, 768, false, true}), 900, 1);
  EXPECT_NEAR(told_us({128, 768, 768, false, true}), 1700, 1);
  EXPECT_NEAR(told_us({768, 768, 64, true, false}), 1100, 1);
  double const between = told_us({96, 768, 768, false, true});
  EXPECT_GT(between, 900);
  EXPECT_LT(between, 1700);
  device.products.clear();
  EXPECT_EQ(product_correction(device, Dtype::f32, {64, 768, 768, false, true}), 1);
}

// A group of the measured size takes the measured time, another one the formula's.
TEST(MakeProfile, MeasuredTimesGoFirst) {
  SystemProfile const p = make_profile(made_up_machine(), "made-up").profile;
  NetworkTime const two = collective_us(p.network, lay_out(p.network, {0, 1}), OpKind::all_reduce, 1024 * 256);
  EXPECT_EQ(two.algorithm, Algorithm::measured);
  EXPECT_NEAR(two.total_us, 10 + 1024 * 256 / 2e3, 1e-6);
  EXPECT_LT(two.wire_us, two.total_us);
  EXPECT_EQ(collective_us(p.network, lay_out(p.network, {0, 1, 2, 3}), OpKind::all_reduce, 1e6).algorithm,
            Algorithm::ring);
  EXPECT_NEAR(message_us(p.network[0], 4096).total_us, 10 + 4096 / 2e3, 1e-6);
}

TEST(MakeProfile, OneRankHasAProfileToo) {
  MachineMeasurement m = made_up_machine();
  m.ranks = m.ranks_per_host = 1;
  m.levels.clear();
  EXPECT_NO_THROW(parse_system_profile(profile_yaml(make_profile(m, "alone").profile), "alone.yaml"));
}

TEST(OverlapText, SaysWhatMoreThanAllMeans) {
  EXPECT_NE(overlap_text(0.84).find("add 84% of their own time"), std::string::npos);
  EXPECT_EQ(overlap_text(1).find("way"), std::string::npos);
  EXPECT_NE(overlap_text(1.3).find("130%"), std::string::npos);
  EXPECT_NE(overlap_text(1.3).find("in each other's way"), std::string::npos);
  EXPECT_NE(overlap_text(4).find("400%"), std::string::npos);
  EXPECT_NE(overlap_text(4).find("measure it again"), std::string::npos);
}

}  // namespace
}  // namespace shardbench
