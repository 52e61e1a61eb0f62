#include "harness/simulate/network_time.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "harness/program/analysis/count.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double bytes_per_us = 1e3;  // of 1 GB/s

/// What a group reaches on a level as one ring: the links of its members in a domain of the level inside, together.
double ring_gb_per_s(std::vector<NetworkLevel> const& network, GroupLayout const& group, std::size_t level) {
  double const links = level == 0 ? 1 : static_cast<double>(group.per_domain[level - 1]);
  NetworkLevel const& n = network[level];
  return links * n.bandwidth_gb_per_s * n.efficiency / n.oversubscription;
}

bool crosses(GroupLayout const& group, std::size_t level) {
  return group.per_domain[level] > (level == 0 ? 1 : group.per_domain[level - 1]);
}

/// Fixed times of a ring that goes round once: its steps within the innermost domains, and over each level above.
double ring_latency_us(std::vector<NetworkLevel> const& network, GroupLayout const& group) {
  double latency = 0, inside = 1;
  for (std::size_t l = 0; l <= group.outer_level; ++l) {
    double const members = static_cast<double>(group.per_domain[l]);
    if (!crosses(group, l)) continue;
    double const domains = static_cast<double>(group.ranks) / members;
    latency += domains * (members / inside - 1) * network[l].latency_us;
    inside = members;
  }
  return latency;
}

NetworkTime finish(double start, double latency, double wire, double depth, double ramp, Algorithm algorithm) {
  return {start + latency + wire + std::sqrt(ramp * wire * depth), wire, algorithm};
}

NetworkTime ring(std::vector<NetworkLevel> const& network, GroupLayout const& group, OpKind kind, double payload) {
  double rate = HUGE_VAL;
  for (std::size_t l = 0; l <= group.outer_level; ++l)
    if (crosses(group, l)) rate = std::min(rate, ring_gb_per_s(network, group, l));
  NetworkLevel const& outer = network[group.outer_level];
  // A shift is one hop of the ring, not a way round it.
  double const rounds = kind == OpKind::all_reduce   ? 2
                        : kind == OpKind::ring_shift ? 1 / static_cast<double>(group.ranks - 1)
                                                     : 1;
  double const wire = ring_wire_bytes(kind, payload, group.ranks) / (rate * bytes_per_us);
  return finish(outer.start_us, rounds * ring_latency_us(network, group), wire, 1, outer.ramp_us, Algorithm::ring);
}

constexpr double least_in_switch_ranks = 5;  // NCCL takes rings below

double in_switch_wire_us(NetworkLevel const& level, double payload) {
  return payload / (level.bandwidth_gb_per_s * level.in_switch_efficiency / level.oversubscription * bytes_per_us);
}

/// All-reduce with the sums made by trees between the domains of the outermost level crossed.
NetworkTime tree(std::vector<NetworkLevel> const& network, GroupLayout const& group, double payload) {
  std::size_t const outer = group.outer_level;
  double const inside = static_cast<double>(group.per_domain[outer - 1]);
  double const domains = static_cast<double>(group.ranks) / inside;
  double const depth = std::max(1.0, std::log2(domains)), passes = domains > 2 ? 2 : network[outer].tree_pair_passes;
  double wire = passes * payload / (ring_gb_per_s(network, group, outer) * bytes_per_us);
  if (inside > 1) {
    NetworkLevel const& inner = network[outer - 1];
    double const ring_us = ring_wire_bytes(OpKind::all_reduce, payload, group.per_domain[outer - 1]) /
                           (inner.bandwidth_gb_per_s * inner.efficiency * bytes_per_us);
    bool const sums = inner.in_switch && inside >= least_in_switch_ranks;
    wire = std::max(wire, sums ? in_switch_wire_us(inner, payload) : ring_us);
  }
  NetworkLevel const& level = network[outer];
  return finish(level.start_us, depth * level.tree_us, wire, depth, level.ramp_us, Algorithm::tree);
}

/// The switches of the one level that the group crosses make the sums.
NetworkTime in_switch(NetworkLevel const& level, double payload) {
  return finish(level.in_switch_start_us, 0, in_switch_wire_us(level, payload), 1, level.ramp_us, Algorithm::in_switch);
}

/// What was measured of such a call, if anything: the fixed time of the smallest is no wire time.
NetworkTime measured(NetworkLevel const& level, OpKind kind, std::int64_t ranks, double payload) {
  for (MeasuredTimes const& times : level.measured)
    if (times.ranks == ranks && times.operation == to_string(kind)) {
      double const us = times.us(payload);
      return {us, std::max(0.0, us - times.points.front().second), Algorithm::measured};
    }
  return {};
}

/// All-to-all: every link carries what leaves its domain; the levels work side by side.
NetworkTime exchange(std::vector<NetworkLevel> const& network, GroupLayout const& group, double payload) {
  double const n = static_cast<double>(group.ranks);
  double slowest = 0, inside = 1;
  for (std::size_t l = 0; l <= group.outer_level; ++l) {
    double const members = static_cast<double>(group.per_domain[l]);
    NetworkLevel const& level = network[l];
    double const leaves = payload * (n - inside) / n;
    if (crosses(group, l))
      slowest = std::max(slowest, leaves / (level.bandwidth_gb_per_s * level.exchange_efficiency /
                                            level.oversubscription * bytes_per_us));
    inside = members;
  }
  NetworkLevel const& outer = network[group.outer_level];
  return finish(outer.start_us, (n - 1) * 0.25 * outer.latency_us, slowest, 1, outer.ramp_us, Algorithm::exchange);
}

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  constexpr EnumNames<Algorithm> names{"none", "ring", "tree", "in-switch", "exchange", "message", "measured"};
  return names[algorithm];
}

GroupLayout lay_out(std::vector<NetworkLevel> const& network, std::vector<std::int64_t> const& devices) {
  GroupLayout layout;
  layout.ranks = static_cast<std::int64_t>(devices.size());
  bool found = false;
  for (std::size_t l = 0; l < network.size(); ++l) {
    std::map<std::int64_t, std::int64_t> members;
    std::int64_t most = 0;
    for (std::int64_t const device : devices)
      most = std::max(most, ++members[network[l].devices > 0 ? device / network[l].devices : 0]);
    layout.per_domain.push_back(most);
    if (!found && most == layout.ranks) layout.outer_level = l, found = true;
  }
  VALIDATE(found || devices.empty(), "the group's devices do not share any level of the network");
  return layout;
}

NetworkTime collective_us(std::vector<NetworkLevel> const& network, GroupLayout const& group, OpKind kind,
                          double payload) {
  if (group.ranks < 2 || payload <= 0) return {};
  bool const one_level = group.outer_level == 0 || group.per_domain[group.outer_level - 1] == 1;
  if (one_level) {
    NetworkTime const told = measured(network[group.outer_level], kind, group.ranks, payload);
    if (told.total_us > 0) return told;
  }
  if (kind == OpKind::all_to_all) return exchange(network, group, payload);
  NetworkTime best = ring(network, group, kind, payload);
  if (kind != OpKind::all_reduce) return best;
  auto const consider = [&](NetworkTime const& other) {
    if (other.total_us < best.total_us) best = other;
  };
  if (group.outer_level > 0) consider(tree(network, group, payload));
  if (one_level && network[group.outer_level].in_switch && static_cast<double>(group.ranks) >= least_in_switch_ranks)
    consider(in_switch(network[group.outer_level], payload));
  return best;
}

NetworkTime message_us(NetworkLevel const& level, double bytes) {
  if (NetworkTime const told = measured(level, OpKind::send, 2, bytes); told.total_us > 0) return told;
  double const wire =
      bytes / (level.bandwidth_gb_per_s * level.message_efficiency / level.oversubscription * bytes_per_us);
  return finish(level.start_us, 0, wire, 1, level.ramp_us, Algorithm::message);
}

}  // namespace shardbench
