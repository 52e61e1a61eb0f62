#pragma once
// The matrix of `nvidia-smi topo -m`, or the link types of `rocm-smi --showtopo`.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// What lies between two devices, nearest first.
enum class LinkKind : std::uint8_t { self, nvlink, xgmi, pix, pxb, phb, pcie, node, sys, unknown, size_ };
std::string_view to_string(LinkKind kind);

struct TopologyLink {
  LinkKind kind = LinkKind::unknown;
  std::int64_t nvlinks = 0;  ///< bonded links of NV#
  bool operator==(TopologyLink const&) const = default;
};

/// A row and column of the matrix: a GPU or a network card.
struct TopologyDevice {
  std::string name;
  bool is_gpu = false;
  std::optional<std::int64_t> cpus;  ///< length of its list of CPUs; nothing for "N/A"
  std::string cpu_list, numa;        ///< as printed; numa is empty for "N/A"
};

struct Topology {
  std::vector<TopologyDevice> devices;
  std::vector<std::vector<TopologyLink>> links;  ///< [row][column]

  std::int64_t gpus() const;
  /// GPUs that a tensor-parallel group of `size` should take together: each set is as near as the matrix allows, in the
  /// order of the matrix. Empty when `size` does not divide the GPUs.
  std::vector<std::vector<std::size_t>> groups(std::int64_t size) const;
  /// GPUs without NVLink (or XGMI) to any other, where others have it among themselves: a card or a link that is
  /// broken.
  std::vector<std::size_t> off_the_links() const;
  /// The farthest link within a set of devices.
  TopologyLink worst_link(std::vector<std::size_t> const& members) const;
};

/// Throws InputError "name:line: ..." for what is no such matrix.
Topology parse_topology(std::string_view text, std::string_view name);
Topology read_topology(std::string const& path);

/// CPUs in "0-23,96-119" (48). Nothing for "N/A" or an empty text; throws InputError for anything else.
std::optional<std::int64_t> count_cpus(std::string_view list);

}  // namespace shardbench
