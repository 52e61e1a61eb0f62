#include "harness/calibrate/nccl_json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/calibrate/nccl_row.hpp"
#include "harness/config/json_value.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Numbers come as numbers, as padded text ("root": "    -1") or as "nan".
std::optional<double> number_of(JsonValue const* value) {
  if (!value) return std::nullopt;
  if (value->kind == JsonValue::Kind::integer) return static_cast<double>(value->integer);
  if (value->kind == JsonValue::Kind::real) return value->real;
  if (value->kind != JsonValue::Kind::text) return std::nullopt;
  std::vector<LogWord> const words = log_words(value->text);
  return words.size() == 1 ? log_number(words.front().text) : std::nullopt;
}

std::int64_t integer_of(JsonValue const* value, std::int64_t fallback) {
  if (value && value->kind == JsonValue::Kind::integer) return value->integer;
  auto const number = number_of(value);
  bool const whole = number && *number > -1e15 && *number < 1e15 && *number == std::floor(*number);
  return whole ? static_cast<std::int64_t>(*number) : fallback;
}

std::string text_of(JsonValue const* value) {
  return value && value->kind == JsonValue::Kind::text ? clean_line(value->text) : std::string();
}

/// The file's numbers have six decimals, which is finer than any table's.
constexpr double json_rounding = 5e-7;

std::optional<NcclTiming> timing_of(JsonValue const* half) {
  if (!half || half->kind != JsonValue::Kind::object) return std::nullopt;
  JsonValue const* const time = half->find("time") ? half->find("time") : half->find("cpu_time");
  auto const us = number_of(time), algbw = number_of(half->find("alg_bw")), busbw = number_of(half->find("bus_bw"));
  if (!us || !algbw || !busbw || *us <= 0 || *algbw < 0 || *busbw < 0) return std::nullopt;
  NcclTiming timing{*us, *algbw, *busbw, json_rounding, json_rounding, json_rounding, NcclCheck::not_checked};
  if (auto const wrong = number_of(half->find("nwrong")))
    timing.check = *wrong > 0 ? NcclCheck::wrong : NcclCheck::right;
  return timing;
}

void read_result(JsonValue const& result, NcclRun& run) {
  NcclRow row;
  row.size_bytes = integer_of(result.find("size"), -1);
  row.count = integer_of(result.find("count"), -1);
  row.type = text_of(result.find("type"));
  row.redop = text_of(result.find("redop"));
  if (auto const root = number_of(result.find("root"))) row.root = integer_of(result.find("root"), -1);
  row.out_of_place = timing_of(result.find("out_of_place"));
  row.in_place = timing_of(result.find("in_place"));
  bool const usable = row.size_bytes >= 0 && row.count >= 0 && nccl_type_bytes(row.type) > 0;
  if (!usable || (!row.out_of_place && !row.in_place)) {
    run.cut_lines.push_back(static_cast<std::int64_t>(run.rows.size() + run.cut_lines.size()) + 1);
    return;
  }
  run.rows.push_back(std::move(row));
}

void read_devices(JsonValue const& root, NcclRun& run) {
  JsonValue const* const config = root.find("config");
  JsonValue const* devices = root.find("devices");
  if (!devices && config) devices = config->find("devices");
  if (!devices) return;
  for (JsonValue const& device : devices->items) {
    NcclDevice d{integer_of(device.find("rank"), -1), integer_of(device.find("device"), -1),
                 text_of(device.find("hostname")), text_of(device.find("device_hex")),
                 text_of(device.find("device_info"))};
    if (d.rank >= 0) run.devices.push_back(std::move(d));
  }
}

/// 22807 -> "2.28.7"; before 2.9 a thousand counted the minor version.
std::string version_text(std::int64_t code) {
  std::int64_t const major = code < 10000 ? 1000 : 10000;
  return code <= 0 ? "" : fmt::format("{}.{}.{}", code / major, code % major / 100, code % 100);
}

std::string collective_of(JsonValue const& root) {
  JsonValue const* const args = root.find("args");
  if (!args || args->items.empty() || args->items.front().kind != JsonValue::Kind::text) return {};
  return args->items.front().text;
}

}  // namespace

NcclRun parse_nccl_json(std::string_view text, std::string_view name) {
  JsonValue const root = parse_json(text, name);
  JsonValue const* const results = root.find("results");
  if (!results || results->kind != JsonValue::Kind::list)
    throw InputError(fmt::format("{}: no list \"results\" in it, as nccl-tests -J writes one", name));
  NcclRun run;
  run.title = collective_of(root);
  run.nccl_version = version_text(integer_of(root.find("nccl_version"), 0));
  read_devices(root, run);
  for (JsonValue const& result : results->items) read_result(result, run);
  if (JsonValue const* const average = root.find("average_bus_bandwidth"))
    run.printed_average = number_of(average->find("bandwidth"));
  if (JsonValue const* const bounds = root.find("out_of_bounds"); bounds && bounds->find("count"))
    run.out_of_bounds = integer_of(bounds->find("count"), 0);
  return run;
}

}  // namespace shardbench
