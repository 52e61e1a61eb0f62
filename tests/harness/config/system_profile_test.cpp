#include "harness/config/system_profile.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/config/shipped_files.hpp"
#include "harness/config/yaml_value.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

template <class F>
std::string message_of(F&& call) {
  try {
    call();
  } catch (InputError const& error) {
    return error.what();
  }
  return "no error";
}

std::string shipped(std::string_view name) {
  for (ShippedFile const& p : shipped_systems())
    if (p.name == name) return std::string(p.text);
  return {};
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SystemProfile, EveryShippedOneIsReadAndCarriesItsName) {
  EXPECT_EQ(shipped_systems().size(), 14u);
  for (std::string const& name : system_names()) {
    SystemProfile const s = load_system(name);
    EXPECT_EQ(s.name, name);
    EXPECT_FALSE(s.sources.empty()) << name;
    EXPECT_EQ(s.network.back().devices, 0) << name << ": the outermost level takes any number of devices";
    EXPECT_GT(s.peak_tflops_of(Dtype::bf16), 0) << name;
  }
  for (std::string const& name : stack_names()) EXPECT_EQ(load_stack(name).name, name);
}

// Case C10: values that others' tables got wrong; peaks are dense (A03).
TEST(SystemProfile, NumbersAreThoseOfTheDataSheets) {
  EXPECT_DOUBLE_EQ(load_system("h100-sxm").peak_tflops_of(Dtype::bf16), 989.4);
  EXPECT_DOUBLE_EQ(load_system("a100-80gb-sxm").device.memory_gb, 80);
  EXPECT_DOUBLE_EQ(load_system("aws-p4d").device.memory_gb, 40);
  // Of a node of 8: 400 Gbit/s together, so 6.25 GB/s a device; 3200 Gbit/s, so 50.
  EXPECT_DOUBLE_EQ(load_system("aws-p4d").network[1].bandwidth_gb_per_s, 400.0 / 8 / 8);
  EXPECT_DOUBLE_EQ(load_system("aws-p5").network[1].bandwidth_gb_per_s, 3200.0 / 8 / 8);
}

TEST(SystemProfile, RefusesWhatItDoesNotKnowInOneLine) {
  EXPECT_NE(message_of([] { load_system("h100-sx"); }).find("did you mean h100-sxm?"), std::string::npos);
  EXPECT_NE(message_of([] { load_system("no-such-machine"); }).find("shipped: a100-80gb-sxm"), std::string::npos);
  EXPECT_NE(message_of([] { load_stack("megatron"); }).find("neither a shipped stack"), std::string::npos);
  std::string const text = shipped("h100-sxm");
  auto const error = [&](std::string const& from, std::string const& to) {
    return message_of([&] { parse_system_profile(replaced(text, from, to), "s.yaml"); });
  };
  EXPECT_EQ(error("  memory_gb: 80", "  memory_gb: -1"),
            "s.yaml: device.memory_gb: -1 is not a number from 0.001 to 1000000");
  EXPECT_EQ(error("  power_w: 700", "  power_watt: 700"),
            "s.yaml: device.power_watt: unknown key, did you mean power_w?");
  EXPECT_EQ(error("  processors: 132\n", ""), "s.yaml: device.processors: missing (an integer)");
  EXPECT_EQ(error("    devices: 0", "    devices: 12"),
            "s.yaml: network[1].devices: 12 is not a multiple above the 8 of the level inside it");
  EXPECT_NE(error("name: h100-sxm", "name: [h100").find("not YAML"), std::string::npos);
  std::string const peak =
      message_of([] { static_cast<void>(load_system("a100-80gb-sxm").peak_tflops_of(Dtype::fp8)); });
  EXPECT_EQ(peak, "system a100-80gb-sxm: no peak for precision fp8 (it has fp32, bf16)");
}

// 8.9 devices were once taken as 8.
TEST(SystemProfile, RefusesFractionsWhereItCounts) {
  std::string const timed =
      "    measured: [{operation: all_reduce, ranks: 8, points: [[1024, 10.5]]}]\n    devices: 8\n";
  std::string const system = replaced(shipped("h100-sxm"), "    devices: 8\n", timed);
  auto const system_error = [&](std::string const& from, std::string const& to) {
    return message_of([&] { parse_system_profile(replaced(system, from, to), "s.yaml"); });
  };
  EXPECT_EQ(message_of([&] { parse_system_profile(system, "s.yaml"); }), "no error");
  EXPECT_EQ(system_error("    devices: 8\n", "    devices: 8.9\n"),
            "s.yaml: network[0].devices: 8.9 is not an integer from 0 to 1000000000");
  EXPECT_EQ(system_error("    devices: 8\n", "    devices: 8.0\n"),
            "s.yaml: network[0].devices: 8.0 is not an integer from 0 to 1000000000");
  EXPECT_EQ(system_error("processors: 132", "processors: 131.5"),
            "s.yaml: device.processors: 131.5 is not an integer from 1 to 1000000");
  EXPECT_EQ(system_error("ranks: 8,", "ranks: 7.5,"),
            "s.yaml: measured[0].ranks: 7.5 is not an integer from 1 to 1000000000");
  std::string const stack(std::ranges::find(shipped_stacks(), "ours", &ShippedFile::name)->text);
  for (std::string const key : {"softmax_multiple", "unfused_softmax_launches"})
    EXPECT_NE(message_of([&] {
                parse_software_stack(fmt::format("{}\n{}: 1.5\n", stack, key), "k.yaml");
              }).find(key + ": 1.5 is not an integer"),
              std::string::npos);
}

// A device that says whose kernels it runs has them at its own peaks; a profile of a calibrated machine has what it
// measured.
TEST(SystemProfile, KernelsAreLentOrMeasured) {
  DeviceProfile const h100 = load_system("h100-sxm").device, h800 = load_system("h800").device;
  EXPECT_EQ(h800.attention.kernels.size(), h100.attention.kernels.size());
  EXPECT_GT(h100.attention.kernels.size(), 5u);
  EXPECT_DOUBLE_EQ(h800.cache_mb, 50);
  std::string const text = shipped("h800");
  EXPECT_NE(message_of([&] {
              parse_system_profile(replaced(text, "kernels_of: h100-sxm", "kernels_of: mine.yaml"), "s.yaml");
            }).find("device.kernels_of: 'mine.yaml' is no shipped system"),
            std::string::npos);
  // 1e12 FLOP in 2,000 us: 500 TFLOP/s of 989.4 or, above the peak, all of it.
  std::string const measured = replaced(text, "  kernels_of: h100-sxm\n",
                                        "  kernels:\n"
                                        "    - {operation: attention_forward, ranks: 1, points: [[1e12, 2000]]}\n"
                                        "    - {operation: attention_backward, ranks: 1, points: [[1e12, 4000]]}\n");
  DeviceProfile const own = parse_system_profile(measured, "s.yaml").device;
  ASSERT_EQ(own.attention.kernels.size(), 1u);
  EXPECT_DOUBLE_EQ(own.attention.kernels[0].efficiency, 1);  // of fp32's peak, the first there is
  EXPECT_DOUBLE_EQ(own.attention.backward_share, 0.5);
}

TEST(SoftwareStack, StatesAShareOfThePeakOrAFactorNotBoth) {
  std::string const text = "name: s\ndescription: d\nsource: s\n";
  auto const error = [&](std::string const& more) {
    return message_of([&] { parse_software_stack(text + more, "k.yaml"); });
  };
  EXPECT_EQ(error("attention: flash\nattention_factor: 0.8\n"), "no error");
  EXPECT_EQ(error("attention: flash\n"), "no error");
  EXPECT_EQ(error("attention: unfused\n"), "no error");  // it takes the time of its products
  EXPECT_NE(error("attention: unfused\nattention_efficiency: 0.5\n"), "no error");
  EXPECT_EQ(
      error("attention: flash\nattention_efficiency: 0.5\nattention_backward_efficiency: 0.5\nattention_factor: 2\n"),
      "k.yaml: attention_factor: nothing to multiply beside an attention_efficiency");
}

TEST(YamlValue, ReadsTypesAndRefusesReferences) {
  JsonValue const v = parse_yaml("a: 1\nb: 2.5\nc: 'true'\nd: true\ne: [x, -3]\nf:\n", "v");
  EXPECT_EQ(v.find("a")->integer, 1);
  EXPECT_DOUBLE_EQ(v.find("b")->real, 2.5);
  EXPECT_EQ(v.find("c")->text, "true");
  EXPECT_TRUE(v.find("d")->boolean);
  EXPECT_EQ(v.find("e")->items[1].integer, -3);
  EXPECT_EQ(v.find("f")->kind, JsonValue::Kind::null);
  EXPECT_EQ(message_of([] { parse_yaml("a: &x 1\nb: *x\n", "v"); }), "v:2: references to other nodes are not read");
  EXPECT_EQ(message_of([] { parse_yaml("a: 1\na: 2\n", "v"); }), "v:2: 'a' is given twice");
  EXPECT_NE(message_of([] { parse_yaml(std::string(40, '[') + std::string(40, ']'), "v"); }).find("nested deeper"),
            std::string::npos);
}

}  // namespace
}  // namespace shardbench
