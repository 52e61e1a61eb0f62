// Times that the cost model gives single products and collectives: bench_components < requests. A line each:
//   product SYSTEM PRECISION M N K [CAST_BYTES CAST_US]
//   collective SYSTEM OPERATION RANKS BYTES [no-switch]
// OPERATION: all_reduce, all_gather, reduce_scatter, all_to_all, or message (to the next rank, round the group). A
// cast of A before the product moves CAST_BYTES an element and takes CAST_US besides. Answers with microseconds, a line
// each; exits with 2 at a request that makes no sense.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "harness/simulate/gemm_time.hpp"
#include "harness/simulate/network_time.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double bytes_per_us = 1e3;  // of 1 GB/s

using Words = std::vector<std::string>;

double number(std::string const& word, double least) {
  double value = 0;
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !(value >= least) || !std::isfinite(value))
    throw InputError("'" + word + "' is no number from " + std::to_string(std::lround(least)) + " on");
  return value;
}

SystemProfile const& system_of(std::string const& name) {
  static std::map<std::string, SystemProfile> systems;
  auto const found = systems.find(name);
  return found != systems.end() ? found->second : systems.emplace(name, load_system(name)).first->second;
}

double product_us(Words const& words) {
  DeviceProfile const& device = system_of(words[1]).device;
  double const m = number(words[3], 1), n = number(words[4], 1), k = number(words[5], 1);
  double const cast = words.size() < 8
                          ? 0
                          : number(words[6], 0) * m * k / (device.memory_gb_per_s * bytes_per_us) + number(words[7], 0);
  for (auto const& [precision, profile] : device.gemm)
    if (words[2] == to_string(precision)) {
      double const element = static_cast<double>(bytes_of(precision));
      // The output of a product of one-byte operands is written as bf16.
      return cast + gemm_us(device, precision, m, n, k, element, std::max(2.0, element));
    }
  throw InputError("'" + words[2] + "': " + device.name + " has no products of this precision");
}

double network_us(Words const& words) {
  std::vector<NetworkLevel> network = system_of(words[1]).network;
  if (words.size() > 5)
    for (NetworkLevel& level : network) level.in_switch = false;
  std::vector<std::int64_t> devices(static_cast<std::size_t>(number(words[3], 2)));
  std::iota(devices.begin(), devices.end(), 0);
  GroupLayout const group = lay_out(network, devices);
  double const bytes = number(words[4], 1);
  if (words[2] == "message") return message_us(network[group.outer_level], bytes).total_us;
  for (OpKind const kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all})
    if (words[2] == to_string(kind)) return collective_us(network, group, kind, bytes).total_us;
  throw InputError("'" + words[2] + "' is none of all_reduce, all_gather, reduce_scatter, all_to_all, message");
}

double answer(Words const& words) {
  if ((words.size() == 6 || words.size() == 8) && words[0] == "product") return product_us(words);
  bool const switched_off = words.size() == 6 && words[5] == "no-switch";
  if ((words.size() == 5 || switched_off) && words[0] == "collective") return network_us(words);
  throw InputError(
      "a line is 'product SYSTEM PRECISION M N K [CAST_BYTES CAST_US]' or 'collective SYSTEM OPERATION RANKS "
      "BYTES [no-switch]'");
}

}  // namespace
}  // namespace shardbench

int main() {
  std::string line;
  for (std::int64_t count = 1; std::getline(std::cin, line); ++count) {
    std::istringstream stream(line);
    shardbench::Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    try {
      std::printf("%.9g\n", shardbench::answer(words));
    } catch (std::exception const& error) {
      std::fprintf(stderr, "bench_components: line %lld: %s\n", static_cast<long long>(count), error.what());
      return 2;
    }
  }
}
