#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// A machine of a hostfile (Open MPI's form: "name slots=8 max_slots=8", # starts a comment).
struct Host {
  std::string name;            ///< without a "user@"
  std::int64_t slots = 1;      ///< one when the file names none, as mpirun counts
  std::int64_t max_slots = 0;  ///< 0: not given
  bool operator==(Host const&) const = default;
};

/// Throws InputError "name:line: ..." for an unknown word, a broken number, a host given twice or no host at all.
std::vector<Host> parse_hostfile(std::string_view text, std::string_view name);
std::vector<Host> read_hostfile(std::string const& path);

/// "a:8,b:8" or "a,b" (one slot each). Throws InputError.
std::vector<Host> parse_host_list(std::string_view text);

std::int64_t total_slots(std::vector<Host> const& hosts);
/// Throws InputError when the hosts have fewer slots than ranks, naming a list that would do (case L02).
void check_slots(std::vector<Host> const& hosts, std::int64_t ranks);

}  // namespace shardbench
