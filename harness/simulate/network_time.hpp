#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/config/system_profile.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// How the ranks of a group lie on a network.
struct GroupLayout {
  std::int64_t ranks = 1;
  std::vector<std::int64_t> per_domain;  ///< [level] most members in one domain of the level; the last is `ranks`
  std::size_t outer_level = 0;           ///< the first level whose one domain holds all members
};

/// `devices`: the device of each member; a device's domain of a level is device / devices of the level.
GroupLayout lay_out(std::vector<NetworkLevel> const& network, std::vector<std::int64_t> const& devices);

/// What moves the data of a collective.
enum class Algorithm : std::uint8_t { none, ring, tree, in_switch, exchange, message, measured, size_ };
std::string_view to_string(Algorithm algorithm);

/// Time of one collective, and how much of it the links are full.
struct NetworkTime {
  double total_us = 0;
  double wire_us = 0;  ///< what another transfer over the same links must wait for
  Algorithm algorithm = Algorithm::none;
};

/// The fastest algorithm for `payload` bytes (whole buffer of an all-reduce or all-to-all, gathered output, scattered
/// input) in a group. Ring: bus bandwidth is the least over the levels crossed, where the members of a domain bring
/// their links together. Tree (all-reduce): within a domain by ring or switch, between domains by double binary trees,
/// whose links carry the buffer twice (once between two domains). In-switch (all-reduce of more than 4 ranks): the
/// buffer passes each link once.
NetworkTime collective_us(std::vector<NetworkLevel> const& network, GroupLayout const& group, OpKind kind,
                          double payload);

/// A message of `bytes` over one level.
NetworkTime message_us(NetworkLevel const& level, double bytes);

}  // namespace shardbench
