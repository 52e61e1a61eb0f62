#include "harness/calibrate/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/calibrate/text_input.hpp"
#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20;
constexpr std::size_t most_devices = 1024;

constexpr EnumNames<LinkKind> kind_names{"X", "NV", "XGMI", "PIX", "PXB", "PHB", "PCIE", "NODE", "SYS", "N/A"};
constexpr std::string_view rocm_links = "Link Type between two GPUs";

std::string_view trimmed(std::string_view text) {
  std::size_t const begin = std::min(text.find_first_not_of(" \r"), text.size());
  return text.substr(begin, text.find_last_not_of(" \r") + 1 - begin);
}

/// Cells between tabs; without any tab, words.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  bool const tabs = line.find('\t') != line.npos;
  each_part(line, tabs ? '\t' : ' ', [&](std::string_view part) {
    std::string_view const cell = trimmed(part);
    if (tabs || !cell.empty()) cells.push_back(cell);
  });
  return cells;
}

constexpr std::array<std::string_view, 3> device_prefixes{"GPU", "NIC", "mlx"};

bool is_device(std::string_view name) {
  for (std::string_view const prefix : device_prefixes)
    if (name.starts_with(prefix) && name.size() > prefix.size() && name.find(' ') == name.npos) return true;
  return false;
}

/// Calls visit(name) for each device of a heading; long lists run together ("NIC8NIC9").
template <class Visit>
void each_device(std::string_view cell, Visit visit) {
  while (!cell.empty()) {
    std::size_t next = cell.size();
    for (std::string_view const prefix : device_prefixes) next = std::min(next, cell.find(prefix, 1));
    visit(cell.substr(0, next));
    cell.remove_prefix(next);
  }
}

std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t const skip = escape_length(line.substr(i));
    if (skip == 0) plain += line[i];
    i += std::max<std::size_t>(skip, 1);
  }
  return plain;
}

std::optional<TopologyLink> link_of(std::string_view cell) {
  if (cell.starts_with("NV")) {
    auto const links = parsed<std::int64_t>(cell.substr(2));
    return links && *links >= 1 ? std::optional(TopologyLink{LinkKind::nvlink, *links}) : std::nullopt;
  }
  auto const found = std::ranges::find(kind_names, cell);
  if (found == kind_names.end()) return std::nullopt;
  return TopologyLink{static_cast<LinkKind>(found - kind_names.begin()), 0};
}

class MatrixReader {
 public:
  explicit MatrixReader(std::string_view name) : name_(name) {}

  Topology read(std::string_view text) {
    // Of the matrices that rocm-smi prints, the one of link types is taken; weights and hops follow from them.
    waits_ = text.find(rocm_links) != text.npos;
    rocm_ = waits_;
    each_line(text, [&](std::string_view line) {
      if (!done_) ++line_, read_line(without_colours(line));
    });
    if (out_.devices.empty())
      fail("no line of GPU names: this is neither the output of nvidia-smi topo -m nor of rocm-smi --showtopo");
    if (out_.links.size() != out_.devices.size())
      fail(fmt::format("{} rows for {} devices", out_.links.size(), out_.devices.size()));
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string const& problem) const {
    throw InputError(fmt::format("{}:{}: {}", printable(name_), line_, problem));
  }

  void read_line(std::string const& line) {
    if (waits_) {
      waits_ = line.find(rocm_links) == line.npos;
      return;
    }
    std::vector<std::string_view> const cells = cells_of(line);
    if (out_.devices.empty()) {
      bool const header = std::ranges::any_of(cells, [](auto c) { return is_device(c); }) &&
                          (cells.front().empty() || !line.starts_with("GPU"));
      if (header) read_names(cells);
      return;
    }
    if (cells.empty() || !is_device(cells.front())) {
      done_ = !out_.links.empty();
      return;
    }
    read_row(cells);
  }

  void read_names(std::vector<std::string_view> const& cells) {
    for (std::string_view const cell : cells) {
      if (!is_device(cell)) {
        if (!cell.empty()) columns_after_.emplace_back(cell);
        continue;
      }
      each_device(cell, [&](std::string_view name) {
        if (!columns_after_.empty() || out_.devices.size() == most_devices)
          fail("device names after other columns, or too many of them");
        out_.devices.push_back({std::string(name), name.starts_with("GPU"), std::nullopt, {}, {}});
      });
    }
  }

  void read_row(std::vector<std::string_view> const& cells) {
    std::size_t const row = out_.links.size(), count = out_.devices.size();
    if (row == count || cells.front() != out_.devices[row].name)
      fail(fmt::format("row {} where {} is expected", in_quotes(cells.front()),
                       row < count ? out_.devices[row].name : "the end"));
    if (cells.size() < count + 1) fail(fmt::format("{} cells for {} devices", cells.size() - 1, count));
    auto& links = out_.links.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      bool const itself = rocm_ && cells[i + 1] == "0";
      auto const link = itself ? TopologyLink{LinkKind::self, 0} : link_of(cells[i + 1]);
      if (!link || (link->kind == LinkKind::self) != (i == row))
        fail(fmt::format(
            "{} between {} and {}; known: X on the diagonal, NV#, XGMI, PIX, PXB, PHB, PCIE, NODE, SYS, N/A",
            in_quotes(cells[i + 1]), cells.front(), out_.devices[i].name));
      links.push_back(*link);
    }
    // Where a name of several columns is N/A, tabs may be doubled: empty cells say nothing.
    std::vector<std::string_view> rest(cells.begin() + static_cast<std::ptrdiff_t>(count) + 1, cells.end());
    std::erase(rest, std::string_view());
    if (!rest.empty()) out_.devices[row].cpu_list = rest[0], out_.devices[row].cpus = count_cpus(rest[0]);
    if (rest.size() > 1 && rest[1] != "N/A") out_.devices[row].numa = rest[1];
  }

  std::string_view name_;
  Topology out_;
  std::vector<std::string> columns_after_;
  std::int64_t line_ = 0;
  bool rocm_ = false, waits_ = false;  ///< waits_: for the heading of rocm-smi's link types
  bool done_ = false;
};

/// Farther is larger; more bonded links are nearer.
std::int64_t distance(TopologyLink const& link) {
  return 1000 * static_cast<std::int64_t>(link.kind) - std::min<std::int64_t>(link.nvlinks, 999);
}

}  // namespace

std::string_view to_string(LinkKind kind) { return kind_names[kind]; }

std::int64_t Topology::gpus() const { return std::ranges::count(devices, true, &TopologyDevice::is_gpu); }

std::vector<std::size_t> Topology::off_the_links() const {
  std::vector<std::size_t> off, on;
  for (std::size_t a = 0; a < devices.size(); ++a) {
    if (!devices[a].is_gpu) continue;
    bool const linked = std::ranges::any_of(links[a], [](TopologyLink const& link) {
      return link.kind == LinkKind::nvlink || link.kind == LinkKind::xgmi;
    });
    (linked ? on : off).push_back(a);
  }
  return on.empty() ? std::vector<std::size_t>() : off;
}

TopologyLink Topology::worst_link(std::vector<std::size_t> const& members) const {
  TopologyLink worst{LinkKind::self, 0};
  for (std::size_t const a : members)
    for (std::size_t const b : members)
      if (a != b && (worst.kind == LinkKind::self || distance(links[a][b]) > distance(worst))) worst = links[a][b];
  return worst;
}

std::vector<std::vector<std::size_t>> Topology::groups(std::int64_t size) const {
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].is_gpu) free.push_back(i);
  std::vector<std::vector<std::size_t>> result;
  if (size < 1 || static_cast<std::int64_t>(free.size()) % size != 0) return result;
  while (!free.empty()) {
    std::vector<std::size_t> group{free.front()};
    free.erase(free.begin());
    while (static_cast<std::int64_t>(group.size()) < size) {
      auto const reach = [&](std::size_t candidate) {
        std::vector<std::size_t> with = group;
        with.push_back(candidate);
        return distance(worst_link(with));
      };
      auto const next = std::ranges::min_element(free, {}, reach);
      group.push_back(*next);
      free.erase(next);
    }
    result.push_back(std::move(group));
  }
  return result;
}

std::optional<std::int64_t> count_cpus(std::string_view list) {
  if (list.empty() || list == "N/A") return std::nullopt;
  std::int64_t count = 0;
  each_part(list, ',', [&](std::string_view part) {
    std::size_t const dash = std::min(part.find('-'), part.size());
    auto const first = parsed<std::int64_t>(part.substr(0, dash)),
               last = dash == part.size() ? first : parsed<std::int64_t>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= 1 << 20)
      throw InputError(fmt::format("CPU list {}: {} is not a number or a range", in_quotes(list), in_quotes(part)));
    count += *last - *first + 1;
  });
  return count;
}

Topology parse_topology(std::string_view text, std::string_view name) {
  if (text.size() > max_bytes) throw InputError(fmt::format("{}: longer than {} bytes", printable(name), max_bytes));
  return MatrixReader(name).read(text);
}

Topology read_topology(std::string const& path) { return parse_topology(read_at_most(path, max_bytes), path); }

}  // namespace shardbench
