// Every number of a profile lands in its own field, and one out of its range is refused with the range: files whose
// every value is another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/config/system_profile.hpp"
#include "tests/harness/config/refusal.hpp"

namespace shardbench::test {
namespace {

std::string const system_text = R"(name: all-different
description: every number is another
device:
  name: device
  peak_tflops: {bf16: 101, fp32: 51}
  gemm:
    bf16: {max_efficiency: 0.71, k_overhead: 72, quantisation: 0.73, small_tile_penalty: 0.74, launch_us: 7.5, memory_efficiency: 0.76, source: a}
    fp32: {max_efficiency: 0.61, k_overhead: 62, quantisation: 0.63, small_tile_penalty: 0.64, launch_us: 6.5, memory_efficiency: 0.66, source: b}
  memory_gb: 81
  memory_gb_per_s: 2001
  memory_efficiency: 0.81
  launch_us: 2.5
  processors: 107
  power_w: 401
  overlap_slowdown: 0.21
  excess: {tp: 0.11, dp: -0.12, pp: 0.13}
  kernels: [{operation: add, ranks: 1, points: [[1000, 3.5], [2000, 4.5]]}]
  products: [{transpose_a: true, samples: [[3, 5, 7, 11.5]]}]
network:
  - {name: inner, devices: 4, bandwidth_gb_per_s: 301, efficiency: 0.31, message_efficiency: 0.33, exchange_efficiency: 0.34, latency_us: 3.5, start_us: 3.6, tree_us: 3.7, tree_pair_passes: 1.5, ramp_us: 3.8, in_switch: true, in_switch_efficiency: 0.35, in_switch_start_us: 3.9, oversubscription: 1.25, source: c, measured: [{operation: all_reduce, ranks: 3, points: [[10, 20.5]]}]}
  - {name: outer, devices: 0, bandwidth_gb_per_s: 41, efficiency: 0.41, latency_us: 4.5, start_us: 4.6, tree_us: 4.7, ramp_us: 4.8, source: d}
price_per_device_hour: 2.75
mtbf_device_hours: 50001
sources: [e, f]
)";

std::string const stack_text = R"(name: all-different
description: every number is another
source: a
attention: flash
attention_efficiency: 0.11
attention_backward_efficiency: 0.12
own_kernels: true
gemm_derate: 0.13
linear_precision: fp8
linear_cast_bytes: 14
elementwise_traffic: 1.5
norm_traffic: 1.7
loss_traffic: 1.6
dropout_traffic: 17
score_traffic: 18
gap_us: 19
host_us: 20
host_awaits_messages: true
receives_ahead: true
collective_host_us: 22
softmax_multiple: 23
unfused_softmax_launches: 24
step_ms: 25
tp_pieces: 4
dp_overlap: true
gather_with_forward: true
scatter_gather: true
gradient_bytes: 2.5
compute_slowdown: 0.28
saved_mask_bytes: 2.9
saved_score_bytes: 3.5
recompute_keeps_output: true
reserved_gb: 31
)";

/// The text with the value of `key` (of the last one where several share the name) another.
std::string with(std::string text, std::string const& key, std::string const& value) {
  auto const at = text.rfind(key + ": ");
  EXPECT_NE(at, text.npos) << key;
  auto const begin = at + key.size() + 2, end = text.find_first_of(",}\n", begin);
  return text.replace(begin, end - begin, value);
}

TEST(ProfileFields, OfASystem) {
  SystemProfile const s = parse_system_profile(system_text, "s");
  DeviceProfile const& d = s.device;
  EXPECT_EQ(d.peak_tflops, (std::map<Dtype, double>{{Dtype::bf16, 101}, {Dtype::f32, 51}}));
  GemmProfile const& g = d.gemm.at(Dtype::bf16);
  EXPECT_EQ(g.max_efficiency, 0.71);
  EXPECT_EQ(g.k_overhead, 72);
  EXPECT_EQ(g.quantisation, 0.73);
  EXPECT_EQ(g.small_tile_penalty, 0.74);
  EXPECT_EQ(g.launch_us, 7.5);
  EXPECT_EQ(g.memory_efficiency, 0.76);
  EXPECT_EQ(g.source, "a");
  EXPECT_EQ(d.gemm.at(Dtype::f32).max_efficiency, 0.61);
  EXPECT_EQ(d.memory_gb, 81);
  EXPECT_EQ(d.memory_gb_per_s, 2001);
  EXPECT_EQ(d.memory_efficiency, 0.81);
  EXPECT_EQ(d.launch_us, 2.5);
  EXPECT_EQ(d.processors, 107);
  EXPECT_EQ(d.power_w, 401);
  EXPECT_EQ(d.overlap_slowdown, 0.21);
  EXPECT_EQ(d.excess.tp, 0.11);
  EXPECT_EQ(d.excess.dp, -0.12);
  EXPECT_EQ(d.excess.pp, 0.13);
  ASSERT_EQ(d.kernels.size(), 1u);
  EXPECT_EQ(d.kernels[0].operation, "add");
  EXPECT_EQ(d.kernels[0].points[1], (std::pair<double, double>{2000, 4.5}));
  ASSERT_EQ(d.products.size(), 1u);
  EXPECT_TRUE(d.products[0].transpose_a && !d.products[0].transpose_b);
  EXPECT_EQ(d.products[0].samples[0], (std::array<double, 4>{3, 5, 7, 11.5}));
  EXPECT_EQ(s.price_per_device_hour, 2.75);
  EXPECT_EQ(s.mtbf_device_hours, 50001);
  EXPECT_EQ(s.sources, (std::vector<std::string>{"e", "f"}));
}

TEST(ProfileFields, OfANetwork) {
  SystemProfile const s = parse_system_profile(system_text, "s");
  ASSERT_EQ(s.network.size(), 2u);
  NetworkLevel const &n = s.network[0], &o = s.network[1];
  EXPECT_EQ(n.devices, 4);
  EXPECT_EQ(n.bandwidth_gb_per_s, 301);
  EXPECT_EQ(n.efficiency, 0.31);
  EXPECT_EQ(n.message_efficiency, 0.33);
  EXPECT_EQ(n.exchange_efficiency, 0.34);
  EXPECT_EQ(n.latency_us, 3.5);
  EXPECT_EQ(n.start_us, 3.6);
  EXPECT_EQ(n.tree_us, 3.7);
  EXPECT_EQ(n.tree_pair_passes, 1.5);
  EXPECT_EQ(n.ramp_us, 3.8);
  EXPECT_TRUE(n.in_switch);
  EXPECT_EQ(n.in_switch_efficiency, 0.35);
  EXPECT_EQ(n.in_switch_start_us, 3.9);
  EXPECT_EQ(n.oversubscription, 1.25);
  ASSERT_EQ(n.measured.size(), 1u);
  EXPECT_EQ(n.measured[0].ranks, 3);
  EXPECT_EQ(n.measured[0].points[0], (std::pair<double, double>{10, 20.5}));
  // What may be left out.
  EXPECT_EQ(o.message_efficiency, 0.41);
  EXPECT_EQ(o.exchange_efficiency, 0.41);
  EXPECT_EQ(o.tree_pair_passes, 1);
  EXPECT_FALSE(o.in_switch);
  EXPECT_EQ(o.in_switch_efficiency, 0);
  EXPECT_EQ(o.oversubscription, 1);
}

TEST(ProfileFields, OfAStack) {
  SoftwareStack const k = parse_software_stack(stack_text, "k");
  EXPECT_EQ(k.attention, AttentionKind::flash);
  EXPECT_EQ(k.attention_efficiency, 0.11);
  EXPECT_EQ(k.attention_backward_efficiency, 0.12);
  EXPECT_EQ(k.gemm_derate, 0.13);
  EXPECT_EQ(k.linear_precision, Dtype::fp8);
  EXPECT_EQ(k.linear_cast_bytes, 14);
  EXPECT_EQ(k.elementwise_traffic, 1.5);
  EXPECT_EQ(k.loss_traffic, 1.6);
  EXPECT_EQ(k.dropout_traffic, 17);
  EXPECT_EQ(k.score_traffic, 18);
  EXPECT_EQ(k.gap_us, 19);
  EXPECT_EQ(k.host_us, 20);
  EXPECT_EQ(k.collective_host_us, 22);
  EXPECT_EQ(k.softmax_multiple, 23);
  EXPECT_EQ(k.unfused_softmax_launches, 24);
  EXPECT_EQ(k.step_ms, 25);
  EXPECT_EQ(k.tp_pieces, 4);
  EXPECT_EQ(k.norm_traffic, 1.7);
  EXPECT_EQ(k.gradient_bytes, 2.5);
  EXPECT_EQ(k.compute_slowdown, 0.28);
  EXPECT_EQ(k.saved_mask_bytes, 2.9);
  EXPECT_EQ(k.saved_score_bytes, 3.5);
  EXPECT_EQ(k.reserved_gb, 31);
  for (bool const flag : {k.own_kernels, k.host_awaits_messages, k.receives_ahead, k.dp_overlap, k.gather_with_forward,
                          k.scatter_gather, k.recompute_keeps_output})
    EXPECT_TRUE(flag);
}

TEST(ProfileFields, WhatAStackMayLeaveOut) {
  SoftwareStack const k = parse_software_stack(
      "{name: a, description: b, source: c, attention: flash, attention_efficiency: 0.5, "
      "attention_backward_efficiency: 0.4}",
      "k");
  EXPECT_EQ(k.attention, AttentionKind::flash);
  EXPECT_EQ(k.attention_efficiency, 0.5);
  EXPECT_EQ(k.attention_backward_efficiency, 0.4);
  EXPECT_EQ(k.tp_pieces, 1);
  EXPECT_EQ(k.linear_precision, Dtype::f32);
  for (double const one : {k.gemm_derate, k.elementwise_traffic, k.loss_traffic}) EXPECT_EQ(one, 1);
  EXPECT_EQ(k.softmax_multiple, 1);
  EXPECT_EQ(k.gradient_bytes, 4);
  for (double const none : {k.linear_cast_bytes, k.dropout_traffic, k.score_traffic, k.gap_us, k.host_us,
                            k.collective_host_us, k.step_ms, k.norm_traffic, k.compute_slowdown,
                            k.saved_mask_bytes, k.saved_score_bytes, k.reserved_gb})
    EXPECT_EQ(none, 0);
  EXPECT_EQ(k.unfused_softmax_launches, 0);
  for (bool const flag : {k.own_kernels, k.host_awaits_messages, k.receives_ahead, k.dp_overlap, k.gather_with_forward,
                          k.scatter_gather, k.recompute_keeps_output})
    EXPECT_FALSE(flag);
}

struct Limits {
  char const* key;
  char const* low;
  char const* high;
};

/// Both ends are taken, and beyond either the message says what is allowed.
template <class Parse>
void expect_range(std::string const& text, Limits const& l, Parse parse) {
  SCOPED_TRACE(l.key);
  double const low = std::stod(l.low), high = std::stod(l.high);
  EXPECT_NO_THROW(parse(with(text, l.key, l.low)));
  EXPECT_NO_THROW(parse(with(text, l.key, l.high)));
  std::string const allowed = fmt::format("from {} to {}", l.low, l.high);
  for (double const beyond : {low - std::abs(low) / 2 - 1e-3, high * 1.5}) {
    std::string const message = refusal([&] { parse(with(text, l.key, fmt::format("{}", beyond))); });
    EXPECT_TRUE(contains(message, allowed)) << message;
    EXPECT_TRUE(contains(message, l.key)) << message;
  }
}

TEST(ProfileFields, RangesOfASystem) {
  auto const parse = [](std::string const& text) { parse_system_profile(text, "s"); };
  for (Limits const& l : {Limits{"memory_gb", "0.001", "1000000"},
                          {"memory_gb_per_s", "0.001", "1000000"},
                          {"power_w", "0", "100000"},
                          {"overlap_slowdown", "0", "100"},
                          {"tp", "-0.9", "100"},
                          {"dp", "-0.9", "100"},
                          {"pp", "-0.9", "100"},
                          {"fp32", "0.001", "1000000"},
                          {"k_overhead", "0", "100000"},
                          {"quantisation", "0", "1"},
                          {"small_tile_penalty", "0", "0.9"},
                          {"max_efficiency", "1e-06", "1"},
                          {"bandwidth_gb_per_s", "1e-06", "1000000"},
                          {"efficiency", "1e-06", "1"},
                          {"message_efficiency", "1e-06", "1"},
                          {"exchange_efficiency", "1e-06", "1"},
                          {"latency_us", "0", "1000000"},
                          {"start_us", "0", "1000000"},
                          {"tree_us", "0", "1000000"},
                          {"tree_pair_passes", "1", "2"},
                          {"ramp_us", "0", "1000000"},
                          {"in_switch_efficiency", "1e-06", "1"},
                          {"in_switch_start_us", "0", "1000000"},
                          {"oversubscription", "1", "1000"},
                          {"price_per_device_hour", "0", "1000000"},
                          {"mtbf_device_hours", "0", "1000000000000"}}) {
    // "fp32" is an object among the products' parameters and a number among the peaks.
    if (std::string(l.key) == "fp32") {
      std::string const message =
          refusal([&] { parse(std::string(system_text).replace(system_text.find("fp32: 51"), 8, "fp32: 2000000")); });
      EXPECT_TRUE(contains(message, "fp32: 2000000 is not a number from 0.001 to 1000000")) << message;
      continue;
    }
    expect_range(system_text, l, parse);
  }
}

TEST(ProfileFields, RangesOfAStack) {
  for (Limits const& l : {Limits{"attention_efficiency", "1e-06", "1"},
                          {"attention_backward_efficiency", "1e-06", "1"},
                          {"gemm_derate", "0.01", "2"},
                          {"linear_cast_bytes", "0", "100"},
                          {"elementwise_traffic", "0.01", "100"},
                          {"loss_traffic", "0.01", "100"},
                          {"dropout_traffic", "0", "100"},
                          {"score_traffic", "0", "100"},
                          {"gap_us", "0", "10000"},
                          {"host_us", "0", "100000"},
                          {"collective_host_us", "0", "100000"},
                          {"step_ms", "0", "1000000"},
                          {"norm_traffic", "0", "100"},
                          {"gradient_bytes", "1", "8"},
                          {"compute_slowdown", "0", "2"},
                          {"saved_mask_bytes", "0", "4"},
                          {"saved_score_bytes", "0", "16"},
                          {"reserved_gb", "0", "10000"}})
    expect_range(stack_text, l, [](std::string const& text) { parse_software_stack(text, "k"); });
  auto const count = [](char const* key, std::string const& value) {
    return refusal([&] { parse_software_stack(with(stack_text, key, value), "k"); });
  };
  EXPECT_TRUE(contains(count("softmax_multiple", "1025"), "from 1 to 1024"));
  EXPECT_TRUE(contains(count("softmax_multiple", "0"), "from 1 to 1024"));
  EXPECT_TRUE(contains(count("unfused_softmax_launches", "101"), "from 0 to 100"));
  EXPECT_TRUE(contains(count("unfused_softmax_launches", "-1"), "from 0 to 100"));
}

TEST(ProfileFields, MeasuredTimesAndProductsAreChecked) {
  auto const times = [](std::string const& points) {
    std::string text = system_text;
    text.replace(text.find("[[1000, 3.5], [2000, 4.5]]"), 26, points);
    return refusal([&] { parse_system_profile(text, "s"); });
  };
  for (char const* bad :
       {"[[1000, 3.5], [1000, 4.5]]", "[[0, 3.5]]", "[[1000, 0]]", "[[-1, 2]]", "[[2e18, 2]]", "[[10, 2e12]]"})
    EXPECT_TRUE(contains(times(bad), "sizes do not ascend")) << bad;
  for (char const* bad : {"[[1000, 3.5, 1]]", "[[1000]]", "[1000]"})
    EXPECT_TRUE(contains(times(bad), "not a list of two numbers")) << bad;
  EXPECT_TRUE(contains(times("[[x, 3.5]]"), "not a list of numbers"));
  EXPECT_TRUE(contains(times("[]"), "not a list with entries"));
  auto const products = [](std::string const& samples) {
    std::string text = system_text;
    text.replace(text.find("[[3, 5, 7, 11.5]]"), 17, samples);
    return refusal([&] { parse_system_profile(text, "s"); });
  };
  for (char const* bad : {"[[3, 5, 7]]", "[[3, 5, 7, 11, 13]]", "[3]"})
    EXPECT_TRUE(contains(products(bad), "m, n, k and microseconds")) << bad;
  for (char const* bad : {"[[0, 5, 7, 11]]", "[[3, 5, 7, 0]]", "[[3, 5, 7, 2e12]]"})
    EXPECT_TRUE(contains(products(bad), "a number is not above 0")) << bad;
}

TEST(ProfileFields, LevelsAreMultiplesOfThoseInside) {
  auto const outer = [](std::string const& devices) {
    std::string text = system_text;
    text.replace(text.find("devices: 0"), 10, "devices: " + devices);
    return refusal([&] { parse_system_profile(text, "s"); });
  };
  for (char const* bad : {"4", "2", "6"}) EXPECT_TRUE(contains(outer(bad), "is not a multiple above the 4")) << bad;
  EXPECT_FALSE(contains(outer("8"), "multiple"));
  std::string text = system_text;
  text.replace(text.find("devices: 4"), 10, "devices: 0");
  EXPECT_TRUE(contains(refusal([&] { parse_system_profile(text, "s"); }),
                       "network[1].devices: 0 is not a multiple above the 0"));
}

TEST(ProfileFields, APeakAndItsProductsComeTogether) {
  auto const without = [](std::string const& part) {
    std::string text = system_text;
    return refusal([&] { parse_system_profile(text.erase(text.find(part), part.size()), "s"); });
  };
  EXPECT_TRUE(contains(without(", fp32: 51"), "fp32: needs both a peak_tflops and a gemm entry"));
  EXPECT_TRUE(contains(without("bf16: 101, "), "bf16: needs both a peak_tflops and a gemm entry"));
  EXPECT_TRUE(contains(refusal([] { parse_software_stack(with(stack_text, "linear_precision", "fp32"), "k"); }),
                       "is not bf16 or fp8"));
  EXPECT_TRUE(contains(refusal([] { parse_software_stack(with(stack_text, "attention", "paged"), "k"); }),
                       "is not flash or unfused"));
}

}  // namespace
}  // namespace shardbench::test
