#include <fmt/format.h>

#include "harness/calibrate/profile_text.hpp"

namespace shardbench {
namespace {

/// Single-quoted YAML text.
std::string yaml_text(std::string_view text) {
  std::string result = "'";
  for (char const c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "'";
}

/// Numbers without exponents' surprises: YAML readers differ on "1e6".
std::string number(double value) {
  return fmt::format("{:.6g}", value).find('e') == std::string::npos ? fmt::format("{:.6g}", value)
                                                                     : fmt::format("{:.6f}", value);
}

std::string times_yaml(std::vector<MeasuredTimes> const& all, std::string const& indent) {
  std::string text;
  for (MeasuredTimes const& t : all) {
    text += fmt::format("{}- {{operation: {}, ranks: {}, points: [", indent, t.operation, t.ranks);
    for (std::size_t i = 0; i < t.points.size(); ++i)
      text += fmt::format("{}[{:.0f}, {}]", i == 0 ? "" : ", ", t.points[i].first, number(t.points[i].second));
    text += "]}\n";
  }
  return text;
}

std::string products_yaml(std::vector<MeasuredProducts> const& all) {
  std::string text = "  products:   # m, n, k, microseconds\n";
  for (MeasuredProducts const& p : all) {
    text += fmt::format("    - {{transpose_a: {}, transpose_b: {}, samples: [", p.transpose_a, p.transpose_b);
    for (std::size_t i = 0; i < p.samples.size(); ++i)
      text += fmt::format("{}[{:.0f}, {:.0f}, {:.0f}, {}]", i == 0 ? "" : ", ", p.samples[i][0], p.samples[i][1],
                          p.samples[i][2], number(p.samples[i][3]));
    text += "]}\n";
  }
  return text;
}

std::string device_yaml(DeviceProfile const& d) {
  std::string text = fmt::format("device:\n  name: {}\n  peak_tflops:\n", yaml_text(d.name));
  for (auto const& [dtype, peak] : d.peak_tflops) text += fmt::format("    {}: {}\n", to_string(dtype), number(peak));
  text += "  gemm:\n";
  for (auto const& [dtype, g] : d.gemm)
    text += fmt::format(
        "    {}:\n      max_efficiency: {}\n      k_overhead: {}\n      quantisation: {}\n      small_tile_penalty: "
        "{}\n"
        "      launch_us: {}\n      memory_efficiency: {}\n      source: {}\n",
        to_string(dtype), number(g.max_efficiency), number(g.k_overhead), number(g.quantisation),
        number(g.small_tile_penalty), number(g.launch_us), number(g.memory_efficiency), yaml_text(g.source));
  text += fmt::format(
      "  memory_gb: {}\n  memory_gb_per_s: {}\n  memory_efficiency: {}\n  launch_us: {}\n  processors: {}\n",
      number(d.memory_gb), number(d.memory_gb_per_s), number(d.memory_efficiency), number(d.launch_us), d.processors);
  if (d.power_w > 0) text += fmt::format("  power_w: {}\n", number(d.power_w));
  if (d.overlap_slowdown > 0) text += fmt::format("  overlap_slowdown: {}\n", number(d.overlap_slowdown));
  if (d.excess.tp != 0 || d.excess.dp != 0 || d.excess.pp != 0)
    text += fmt::format("  excess: {{tp: {}, dp: {}, pp: {}}}\n", number(d.excess.tp), number(d.excess.dp),
                        number(d.excess.pp));
  if (!d.kernels.empty())
    text += "  kernels:   # bytes (FLOPs for attention), microseconds\n" + times_yaml(d.kernels, "    ");
  if (!d.products.empty()) text += products_yaml(d.products);
  return text;
}

std::string level_yaml(NetworkLevel const& n) {
  std::string text = fmt::format(
      "  - name: {}\n    devices: {}\n    bandwidth_gb_per_s: {}\n    efficiency: {}\n    message_efficiency: {}\n"
      "    exchange_efficiency: {}\n    start_us: {}\n    latency_us: {}\n    tree_us: {}\n    ramp_us: {}\n",
      yaml_text(n.name), n.devices, number(n.bandwidth_gb_per_s), number(n.efficiency), number(n.message_efficiency),
      number(n.exchange_efficiency), number(n.start_us), number(n.latency_us), number(n.tree_us), number(n.ramp_us));
  if (n.in_switch)
    text += fmt::format("    in_switch: true\n    in_switch_efficiency: {}\n    in_switch_start_us: {}\n",
                        number(n.in_switch_efficiency), number(n.in_switch_start_us));
  if (n.oversubscription > 1) text += fmt::format("    oversubscription: {}\n", number(n.oversubscription));
  text += fmt::format("    source: {}\n", yaml_text(n.source));
  if (!n.measured.empty()) text += "    measured:   # payload bytes, microseconds\n" + times_yaml(n.measured, "      ");
  return text;
}

}  // namespace

std::string overlap_text(double slowdown) {
  std::string const text =
      fmt::format("products beside all-reduces add {:.0f}% of their own time (0%: hidden, 100%: one after the other)",
                  100 * slowdown);
  if (slowdown <= 1) return text;
  return text + (slowdown <= 2 ? ", so that they get in each other's way"
                               : ", which other work on this machine can do: measure it again");
}

std::string profile_yaml(SystemProfile const& p) {
  std::string text = fmt::format("name: {}\ndescription: {}\n", yaml_text(p.name), yaml_text(p.description)) +
                     device_yaml(p.device) + "network:\n";
  for (NetworkLevel const& level : p.network) text += level_yaml(level);
  if (p.price_per_device_hour > 0) text += fmt::format("price_per_device_hour: {}\n", number(p.price_per_device_hour));
  if (p.mtbf_device_hours > 0) text += fmt::format("mtbf_device_hours: {}\n", number(p.mtbf_device_hours));
  text += "sources:\n";
  for (std::string const& source : p.sources) text += fmt::format("  - {}\n", yaml_text(source));
  return text;
}

}  // namespace shardbench
