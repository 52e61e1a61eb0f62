#include "harness/config/system_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/json_fields.hpp"
#include "harness/config/shipped_files.hpp"
#include "harness/config/text_file.hpp"
#include "harness/config/yaml_value.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_profile_bytes = std::size_t{1} << 20;
constexpr double any = 1e12;
constexpr std::int64_t most_devices = 1000000000;
constexpr Dtype precisions[] = {Dtype::f32, Dtype::bf16, Dtype::fp8};

/// The members of one object of a profile; end() refuses those nobody asked for, so that a misspelt key is an error.
class Section : public JsonFields {
 public:
  explicit Section(JsonFields fields) : JsonFields(std::move(fields)) {}

  double number(std::string_view key, double min, double max) {
    need(key, "a number");
    return number_or(key, 0, min, max);
  }
  /// A fraction is refused: rounding it would be another machine.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) {
    need(key, "an integer");
    return integer_or(key, 0, min, max);
  }
  double share(std::string_view key) { return number(key, 1e-6, 1); }
  std::string text(std::string_view key) {
    need(key, "a text");
    return text_or(key, "");
  }
  Section section(std::string_view key) {
    need(key, "an object");
    return Section(*object(key));
  }
  std::vector<Section> sections(std::string_view key) {
    std::vector<Section> all;
    for (JsonValue const& item : list(key))
      all.emplace_back(JsonFields(item, file(), fmt::format("{}[{}].", key, all.size())));
    return all;
  }
  /// What `read` makes of each entry of a list; nothing when it is left out.
  template <class T>
  std::vector<T> each_of(std::string_view key, T (*read)(Section)) {
    std::vector<T> all;
    if (has(key)) std::ranges::transform(sections(key), std::back_inserter(all), read);
    return all;
  }
  std::vector<JsonValue> const& list(std::string_view key) {
    need(key, "a list");
    JsonValue const& found = *value().find(key);
    if (found.kind != JsonValue::Kind::list || found.items.empty()) fail(key, "not a list with entries");
    return found.items;
  }

  void end() const {
    std::vector<std::string> const known = keys_read();
    for (auto const& [name, member] : value().members) {
      if (std::ranges::find(known, name) != known.end()) continue;
      std::string const near = nearest_name(name, known);
      fail(printable(name), near.empty() ? fmt::format("unknown key; allowed: {}", fmt::join(known, ", "))
                                         : fmt::format("unknown key, did you mean {}?", near));
    }
  }

 private:
  void need(std::string_view key, std::string_view what) {
    if (!has(key)) fail(key, fmt::format("missing ({})", what));
  }
};

double number_of(Section const& s, JsonValue const& value) {
  if (value.kind == JsonValue::Kind::integer) return static_cast<double>(value.integer);
  if (value.kind != JsonValue::Kind::real) s.fail("points", "a point is not a list of numbers");
  return value.real;
}

/// Pairs of size and microseconds, sizes ascending, times above 0.
MeasuredTimes read_times(Section s) {
  MeasuredTimes times;
  times.operation = s.text("operation");
  times.ranks = s.integer("ranks", 1, most_devices);
  for (JsonValue const& item : s.list("points")) {
    if (item.kind != JsonValue::Kind::list || item.items.size() != 2)
      s.fail("points", "a point is not a list of two numbers");
    double const size = number_of(s, item.items[0]), us = number_of(s, item.items[1]);
    double const before = times.points.empty() ? 0 : times.points.back().first;
    if (!(size > before && size <= 1e18 && us > 0 && us <= any))
      s.fail("points", "sizes do not ascend from above 0, or a time is not above 0");
    times.points.emplace_back(size, us);
  }
  s.end();
  return times;
}

/// Lists of m, n, k and microseconds, all above 0.
MeasuredProducts read_products(Section s) {
  MeasuredProducts products;
  products.transpose_a = s.flag_or("transpose_a", false);
  products.transpose_b = s.flag_or("transpose_b", false);
  for (JsonValue const& item : s.list("samples")) {
    if (item.kind != JsonValue::Kind::list || item.items.size() != 4)
      s.fail("samples", "a sample is not a list of m, n, k and microseconds");
    std::array<double, 4> sample;
    for (std::size_t i = 0; i < 4; ++i) {
      sample[i] = number_of(s, item.items[i]);
      if (!(sample[i] > 0 && sample[i] <= any)) s.fail("samples", "a number is not above 0");
    }
    products.samples.push_back(sample);
  }
  s.end();
  return products;
}

GemmProfile read_gemm(Section s) {
  GemmProfile g;
  g.max_efficiency = s.share("max_efficiency");
  g.k_overhead = s.number("k_overhead", 0, 1e5);
  g.quantisation = s.number("quantisation", 0, 1);
  g.small_tile_penalty = s.number("small_tile_penalty", 0, 0.9);
  g.launch_us = s.number("launch_us", 0, 1e4);
  g.memory_efficiency = s.share("memory_efficiency");
  g.sustained = s.number_or("sustained", 1, 0.01, 1);
  g.sustained_source = s.text_or("sustained_source", "");
  if (g.sustained < 1 && g.sustained_source.empty()) s.fail("sustained_source", "missing (a text), as sustained is below 1");
  g.source = s.text("source");
  s.end();
  return g;
}

Dtype precision_in(Section& s, std::string_view key) {
  std::string const text = s.text(key);
  auto const found = std::ranges::find(precisions, text, [](Dtype t) { return to_string(t); });
  if (found == std::end(precisions)) s.fail(key, fmt::format("{} is not fp32, bf16 or fp8", in_quotes(text)));
  return *found;
}

AttentionKernel read_attention_kernel(Section s) {
  AttentionKernel k;
  k.precision = precision_in(s, "precision");
  k.cache = s.has("cache") ? precision_in(s, "cache") : k.precision;
  k.head_tile = s.integer("head_tile", 8, 4096);
  k.value_tile = s.integer_or("value_tile", k.head_tile, 8, 4096);
  k.query_tile = s.integer("query_tile", 1, 4096);
  k.efficiency = s.share("efficiency");
  k.tile_overhead = s.number("tile_overhead", 0, 1e5);
  k.window_overhead = s.number_or("window_overhead", 0, 0, 1e5);
  k.tail = s.number("tail", 0, 2);
  k.launch_us = s.number_or("launch_us", 0, 0, 1e4);
  k.prepare_traffic = s.number_or("prepare_traffic", 0, 0, 100);
  k.cached_share = s.number_or("cached_share", 1, 0, 1);
  s.end();
  return k;
}

AttentionProfile read_attention_profile(Section s) {
  AttentionProfile a;
  a.kernels = s.each_of("kernels", read_attention_kernel);
  if (a.kernels.empty()) s.fail("kernels", "missing (a list)");
  a.backward_share = s.number("backward_share", 0.01, 10);
  a.backward_overhead = s.number("backward_overhead", 0, 1e5);
  a.source = s.text("source");
  s.end();
  return a;
}

double best_rate(MeasuredTimes const& times) {
  double best = 0;
  for (auto const& [flops, us] : times.points) best = std::max(best, flops / us);
  return best;
}

/// What the measured attention of a calibrated machine says of a kernel at its best.
AttentionProfile attention_of(DeviceProfile const& d) {
  auto const find = [&](std::string_view operation) {
    return std::ranges::find(d.kernels, operation, &MeasuredTimes::operation);
  };
  auto const forward = find("attention_forward"), backward = find("attention_backward");
  if (forward == d.kernels.end() || backward == d.kernels.end()) return {};
  auto const& [precision, peak] = *d.peak_tflops.begin();
  AttentionKernel k;
  k.precision = k.cache = precision;
  k.head_tile = k.value_tile = 64;
  k.efficiency = std::clamp(best_rate(*forward) / (peak * 1e6), 1e-6, 1.0);
  return {{k}, best_rate(*backward) / best_rate(*forward), 0, "the best rates among the measured kernels"};
}

/// Peaks and how products reach them, by precision. Another shipped system's device lends what is not said here.
void read_products_of(Section& s, DeviceProfile& d) {
  Section peaks = s.section("peak_tflops");
  bool const lent = !d.gemm.empty();
  for (Dtype const t : precisions)
    if (peaks.has(to_string(t))) d.peak_tflops[t] = peaks.number(to_string(t), 1e-3, 1e6);
  peaks.end();
  if (d.peak_tflops.empty()) s.fail("peak_tflops", "no precision given; allowed: fp32, bf16, fp8");
  if (!lent || s.has("gemm")) {
    Section gemms = s.section("gemm");
    for (Dtype const t : precisions)
      if (gemms.has(to_string(t))) d.gemm[t] = read_gemm(gemms.section(to_string(t)));
    gemms.end();
  }
  for (Dtype const t : precisions)
    if (d.peak_tflops.contains(t) ? !d.gemm.contains(t) : d.gemm.contains(t) && !lent)
      s.fail(to_string(t), "needs both a peak_tflops and a gemm entry");
}

/// The kernels of another shipped system's device, for one that runs the same at its own peaks, memory and processors.
DeviceProfile lent_kernels(Section& s) {
  DeviceProfile d;
  if (!s.has("kernels_of")) return d;
  std::string const name = s.text("kernels_of");
  std::vector<std::string> const names = system_names();
  if (std::ranges::find(names, name) == names.end())
    s.fail("kernels_of", fmt::format("{} is no shipped system; shipped: {}", in_quotes(name), fmt::join(names, ", ")));
  DeviceProfile const other = load_system(name).device;
  d.gemm = other.gemm, d.attention = other.attention, d.cache_mb = other.cache_mb;
  return d;
}

DeviceProfile read_device(Section s) {
  DeviceProfile d = lent_kernels(s);
  d.name = s.text("name");
  read_products_of(s, d);
  d.memory_gb = s.number("memory_gb", 1e-3, 1e6);
  d.memory_gb_per_s = s.number("memory_gb_per_s", 1e-3, 1e6);
  d.memory_efficiency = s.share("memory_efficiency");
  d.launch_us = s.number("launch_us", 0, 1e4);
  d.processors = s.integer("processors", 1, 1000000);
  d.power_w = s.number_or("power_w", 0, 0, 1e5);
  d.cache_mb = s.number_or("cache_mb", d.cache_mb, 0, 1e5);
  if (s.has("attention")) d.attention = read_attention_profile(s.section("attention"));
  d.warp_mma_share = s.number_or("warp_mma_share", 1, 0.01, 1);
  d.overlap_slowdown = s.number_or("overlap_slowdown", 0, 0, 100);
  if (s.has("excess")) {
    Section e = s.section("excess");
    for (auto const& [key, share] : {std::pair{"tp", &d.excess.tp}, {"dp", &d.excess.dp}, {"pp", &d.excess.pp}})
      *share = e.number_or(key, 0, -0.9, 100);
    e.end();
  }
  d.kernels = s.each_of("kernels", read_times);
  d.products = s.each_of("products", read_products);
  if (d.attention.kernels.empty()) d.attention = attention_of(d);
  s.end();
  return d;
}

NetworkLevel read_level(Section s) {
  NetworkLevel n;
  n.name = s.text("name");
  n.devices = s.integer("devices", 0, most_devices);
  n.bandwidth_gb_per_s = s.number("bandwidth_gb_per_s", 1e-6, 1e6);
  n.efficiency = s.share("efficiency");
  n.message_efficiency = s.number_or("message_efficiency", n.efficiency, 1e-6, 1);
  n.exchange_efficiency = s.number_or("exchange_efficiency", n.efficiency, 1e-6, 1);
  n.latency_us = s.number("latency_us", 0, 1e6);
  n.start_us = s.number("start_us", 0, 1e6);
  n.tree_us = s.number("tree_us", 0, 1e6);
  n.tree_pair_passes = s.number_or("tree_pair_passes", 1, 1, 2);
  n.ramp_us = s.number("ramp_us", 0, 1e6);
  n.in_switch = s.flag_or("in_switch", false);
  if (n.in_switch) {
    n.in_switch_efficiency = s.share("in_switch_efficiency");
    n.in_switch_start_us = s.number("in_switch_start_us", 0, 1e6);
  }
  n.oversubscription = s.number_or("oversubscription", 1, 1, 1000);
  n.source = s.text("source");
  n.measured = s.each_of("measured", read_times);
  s.end();
  return n;
}

std::vector<NetworkLevel> read_network(Section& s) {
  std::vector<NetworkLevel> levels;
  for (Section& item : s.sections("network")) {
    levels.push_back(read_level(std::move(item)));
    NetworkLevel const& level = levels.back();
    if (levels.size() < 2) continue;
    NetworkLevel const& inner = levels[levels.size() - 2];
    if (inner.devices == 0 || (level.devices > 0 && (level.devices <= inner.devices || level.devices % inner.devices)))
      s.fail(fmt::format("network[{}].devices", levels.size() - 1),
             fmt::format("{} is not a multiple above the {} of the level inside it", level.devices, inner.devices));
  }
  return levels;
}

AttentionKind read_attention(Section& s) {
  std::string const kind = s.text("attention");
  if (kind == "flash") return AttentionKind::flash;
  if (kind != "unfused") s.fail("attention", fmt::format("{} is not flash or unfused", in_quotes(kind)));
  return AttentionKind::unfused;
}

/// In fp32 the loss keeps its softmax until backward, and takes an fp32 copy of the logits and of their gradient
/// besides (torch.nn.functional.cross_entropy of logits.float(); Megatron Core's vocab_parallel_cross_entropy).
void read_logits(Section& s, SoftwareStack& k) {
  std::string const dtype = s.text("logits");
  if (dtype != "fp32" && dtype != "bf16") s.fail("logits", fmt::format("{} is not fp32 or bf16", in_quotes(dtype)));
  if (dtype == "fp32") k.logits_bytes = k.loss_working_bytes = 4;
}

/// The share of the peak that a stack states, or a factor on what the device's kernels reach. Unfused attention takes the
/// time of its products.
void read_attention_rate(Section& s, SoftwareStack& k) {
  if (k.attention == AttentionKind::unfused) return;
  bool const stated = s.has("attention_efficiency");
  if (stated) {
    k.attention_efficiency = s.share("attention_efficiency");
    k.attention_backward_efficiency = s.share("attention_backward_efficiency");
  }
  if (stated && s.has("attention_factor"))
    s.fail("attention_factor", "nothing to multiply beside an attention_efficiency");
  k.attention_factor = s.number_or("attention_factor", 1, 0.05, 5);
}

std::string shipped_text(std::string_view name, std::span<ShippedFile const> shipped, char const* what) {
  auto const found = std::ranges::find(shipped, name, &ShippedFile::name);
  if (found != shipped.end()) return std::string(found->text);
  std::string const path(name);
  if (path.ends_with(".yaml"))
    if (std::optional<std::string> text = text_of_file(path, max_profile_bytes)) return std::move(*text);
  std::vector<std::string> const names = names_of(shipped);
  std::string const near = nearest_name(name, names);
  throw InputError(fmt::format("--{}: {} is neither a shipped {} nor a readable .yaml file{}; shipped: {}", what,
                               in_quotes(name), what, near.empty() ? "" : fmt::format(", did you mean {}?", near),
                               fmt::join(names, ", ")));
}

}  // namespace

double MeasuredTimes::us(double size) const {
  if (size <= points.front().first) return points.front().second;
  auto const above = std::ranges::lower_bound(points, size, {}, [](auto const& p) { return p.first; });
  if (above == points.end()) {
    auto const& last = points.back();
    if (points.size() == 1) return last.second * size / last.first;
    auto const& before = points[points.size() - 2];
    double const slope = (last.second - before.second) / (last.first - before.first);
    return slope > 0 ? last.second + slope * (size - last.first) : last.second * size / last.first;
  }
  auto const& low = *(above - 1);
  double const share = std::log(size / low.first) / std::log(above->first / low.first);
  return low.second * std::pow(above->second / low.second, share);
}

double SystemProfile::peak_tflops_of(Dtype precision) const {
  auto const found = device.peak_tflops.find(precision);
  if (found != device.peak_tflops.end()) return found->second;
  std::vector<std::string_view> known;
  for (auto const& [dtype, peak] : device.peak_tflops) known.push_back(to_string(dtype));
  throw InputError(fmt::format("system {}: no peak for precision {} (it has {})", name, to_string(precision),
                               fmt::join(known, ", ")));
}

SystemProfile parse_system_profile(std::string_view yaml, std::string_view name) {
  JsonValue const root = parse_yaml(yaml, name);
  Section s{JsonFields(root, std::string(name))};
  SystemProfile profile;
  profile.name = s.text("name");
  profile.description = s.text("description");
  profile.device = read_device(s.section("device"));
  profile.network = read_network(s);
  profile.price_per_device_hour = s.number_or("price_per_device_hour", 0, 0, 1e6);
  profile.mtbf_device_hours = s.number_or("mtbf_device_hours", 0, 0, any);
  for (JsonValue const& item : s.list("sources")) {
    if (item.kind != JsonValue::Kind::text) s.fail("sources", "an entry is not a text");
    profile.sources.push_back(item.text);
  }
  s.end();
  return profile;
}

SoftwareStack parse_software_stack(std::string_view yaml, std::string_view name) {
  JsonValue const root = parse_yaml(yaml, name);
  Section s{JsonFields(root, std::string(name))};
  SoftwareStack k;
  k.name = s.text("name");
  k.description = s.text("description");
  k.source = s.text("source");
  k.attention = read_attention(s);
  read_attention_rate(s, k);
  k.warp_mma = s.flag_or("warp_mma", false);
  k.own_kernels = s.flag_or("own_kernels", false);
  k.gemm_derate = s.number_or("gemm_derate", 1, 0.01, 2);
  if (s.has("linear_precision")) {
    k.linear_precision = precision_in(s, "linear_precision");
    if (k.linear_precision == Dtype::f32) s.fail("linear_precision", "'fp32' is not bf16 or fp8");
  }
  k.linear_cast_bytes = s.number_or("linear_cast_bytes", 0, 0, 100);
  k.elementwise_traffic = s.number_or("elementwise_traffic", 1, 0.01, 100);
  k.norm_traffic = s.number_or("norm_traffic", 0, 0, 100);
  k.loss_traffic = s.number_or("loss_traffic", 1, 0.01, 100);
  k.dropout_traffic = s.number_or("dropout_traffic", 0, 0, 100);
  k.score_traffic = s.number_or("score_traffic", 0, 0, 100);
  k.gap_us = s.number_or("gap_us", 0, 0, 1e4);
  k.host_us = s.number_or("host_us", 0, 0, 1e5);
  k.host_awaits_messages = s.flag_or("host_awaits_messages", false);
  k.receives_ahead = s.flag_or("receives_ahead", false);
  k.collective_host_us = s.number_or("collective_host_us", 0, 0, 1e5);
  k.softmax_multiple = s.integer_or("softmax_multiple", 1, 1, 1024);
  k.unfused_softmax_launches = s.integer_or("unfused_softmax_launches", 0, 0, 100);
  k.step_ms = s.number_or("step_ms", 0, 0, 1e6);
  k.tp_pieces = s.integer_or("tp_pieces", 1, 1, 1024);
  k.dp_overlap = s.flag_or("dp_overlap", false);
  k.gather_with_forward = s.flag_or("gather_with_forward", false);
  k.scatter_gather = s.flag_or("scatter_gather", false);
  k.gradient_bytes = s.number_or("gradient_bytes", 4, 1, 8);
  k.compute_slowdown = s.number_or("compute_slowdown", 0, 0, 2);
  k.saved_mask_bytes = s.number_or("saved_mask_bytes", 0, 0, 4);
  k.saved_score_bytes = s.number_or("saved_score_bytes", 0, 0, 16);
  k.recompute_keeps_output = s.flag_or("recompute_keeps_output", false);
  if (s.has("logits")) read_logits(s, k);
  k.moment_bytes = s.integer_or("moment_bytes", 4, 1, 4);
  k.activation_input_bytes = s.integer_or("activation_input_bytes", 0, 0, 4);
  k.merged_weights = s.flag_or("merged_weights", false);
  k.context_gb = s.number_or("context_gb", 0, 0, 100);
  k.workspace_gb = s.number_or("workspace_gb", 0, 0, 100);
  k.communicator_gb = s.number_or("communicator_gb", 0, 0, 100);
  k.fragmentation = s.number_or("fragmentation", 0, 0, 10);
  k.reserved_gb = s.number_or("reserved_gb", 0, 0, 1e4);
  s.end();
  return k;
}

SystemProfile load_system(std::string_view name) {
  return parse_system_profile(shipped_text(name, shipped_systems(), "system"), name);
}

SoftwareStack load_stack(std::string_view name) {
  return parse_software_stack(shipped_text(name, shipped_stacks(), "stack"), name);
}

std::vector<std::string> system_names() { return names_of(shipped_systems()); }
std::vector<std::string> stack_names() { return names_of(shipped_stacks()); }

}  // namespace shardbench
