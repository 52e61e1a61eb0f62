#pragma once
// Outputs of nccl-tests as they are found: any version, with launchers' noise, cut short, or the JSON of -J.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// What the result check of nccl-tests said about one timing.
enum class NcclCheck : std::uint8_t { not_checked, right, wrong };

/// One half of a row, out of place or in place; numbers as printed, GB = 1e9 bytes.
struct NcclTiming {
  double time_us = 0, algbw_gb_per_s = 0, busbw_gb_per_s = 0;
  double time_rounding_us = 0, algbw_rounding = 0, busbw_rounding = 0;  ///< half of the last printed digit
  NcclCheck check = NcclCheck::not_checked;
};

/// One size of a table.
struct NcclRow {
  std::int64_t line = 0;        ///< in the file, from 1; 0 for JSON
  std::int64_t size_bytes = 0;  ///< total: for all_gather, reduce_scatter, all_to_all over all ranks
  std::int64_t count = 0;       ///< elements a rank
  std::string type, redop;
  std::optional<std::int64_t> root;
  std::optional<NcclTiming> out_of_place, in_place;
};

/// A "Rank ..." line.
struct NcclDevice {
  std::int64_t rank = 0, device = 0;
  std::string host, bus, name;
};

/// How a run's rank count is known.
enum class RanksFrom : std::uint8_t { unknown, rank_lines, sizes, bus_factor, guess };

/// One table of one type of element, and what belongs to it.
struct NcclRun {
  std::string title;                ///< of a "## ..." line
  std::string collective;           ///< "all_reduce", "all_to_all", ...; empty when it cannot be told
  bool collective_named = false;    ///< said by the log, not concluded from the numbers
  std::vector<std::string> may_be;  ///< what it can be when it was not named
  std::int64_t ranks = 0;           ///< 0: unknown
  RanksFrom ranks_from = RanksFrom::unknown;
  std::int64_t ranks_low = 0, ranks_high = 0;  ///< what the bus factor allows, when it was asked
  std::int64_t worlds = 1;                     ///< independent jobs whose output is mixed here
  std::int64_t ranks_by_size = 0;              ///< what size over count says, 0: nothing
  bool algbw_has_factor = false;               ///< oldest versions print algbw with (n-1)/n already in it
  std::vector<NcclRow> rows;
  std::vector<std::string> types;  ///< all that the run was made with, when there were several; a table has one
  std::vector<NcclDevice> devices;
  std::optional<double> printed_average;      ///< GB/s of the footer
  std::optional<std::int64_t> out_of_bounds;  ///< of the footer
  std::string tests_version, nccl_version;
  bool truncated = false;                ///< the log says that rows are missing
  std::vector<std::int64_t> cut_lines;   ///< rows that end too early or read as nonsense
  std::int64_t headers = 0, starts = 0;  ///< header lines, start lines; many without rows are many worlds
  bool redop_column = true;              ///< false when a header without one was there

  std::string type() const;    ///< of its elements, "float", "bfloat16", ...; empty without rows
  std::int64_t nodes() const;  ///< distinct hosts of the rank lines, 0 without any
  bool shares_device() const;  ///< two ranks on one device
  /// Of its collective, or of the first that it may be.
  std::optional<double> bus_factor() const;
  /// Calls visit(row, timing, in place) for every timing.
  template <class Visit>
  void each_timing(Visit visit) const {
    for (NcclRow const& row : rows)
      for (auto const* half : {&row.out_of_place, &row.in_place})
        if (*half) visit(row, **half, half == &row.in_place);
  }
};

/// A file.
struct NcclLog {
  std::string name;
  std::vector<NcclRun> runs;
  std::vector<std::string> other_lines;  ///< launchers' and libraries' text, the first few
  std::int64_t other_count = 0;
};

/// Reads a log or the JSON of -J. Throws InputError when nothing in it is of nccl-tests, or when it is too long.
NcclLog parse_nccl_log(std::string_view text, std::string_view name);
NcclLog read_nccl_log(std::string const& path);

/// Size of an element, 0 for an unknown type name.
std::int64_t nccl_type_bytes(std::string_view type);

/// Bus factor of a collective by our name over n ranks (nccl-tests doc/PERFORMANCE.md); nothing for unknown ones.
std::optional<double> nccl_bus_factor(std::string_view collective, std::int64_t ranks);

/// Ranks whose elements a row's size counts: all of a gathering collective's, one of the others'; 0 where collective or
/// ranks are not known.
std::int64_t nccl_size_holders(NcclRun const& run);

/// Concludes what the log does not say: collective, ranks, worlds. Called by parse_nccl_log.
void identify(NcclRun& run);

}  // namespace shardbench
