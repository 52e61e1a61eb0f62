#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/config/axis.hpp"
#include "harness/config/model_config.hpp"
#include "harness/config/recompute_modules.hpp"
#include "harness/schedule/schedule.hpp"

namespace shardbench {

enum class Recompute : std::uint8_t { none, selective, full, size_ };
std::string_view to_string(Recompute kind);

/// What ZeRO 3 leaves whole between the microbatches of a step: nothing, weights, or weights and gradients.
enum class ZeroKeep : std::uint8_t { none, weights, all, size_ };
std::string_view to_string(ZeroKeep keep);

enum class CpMethod : std::uint8_t { ring, all_gather, ulysses, size_ };
std::string_view to_string(CpMethod method);

/// How tensor-parallel communication runs beside its products: not, or both in pieces.
enum class TpOverlap : std::uint8_t { none, chunked, size_ };
std::string_view to_string(TpOverlap overlap);

/// How the model is cut: degrees only; meshes, groups and shapes are derived.
struct Cut {
  std::int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  std::int64_t etp = 1;          ///< tensor parallel degree of the experts
  std::int64_t vpp = 1;          ///< model chunks per stage; above 1 means interleaved
  int zero_stage = 0;            ///< 0 to 3
  std::int64_t shard_ranks = 0;  ///< HSDP: ranks a ZeRO shard is spread over, 0 means all of dp
  ZeroKeep zero_keep = ZeroKeep::none;
  bool sequence_parallel = false;
  double tp_sync_fraction = 1;  ///< partially synchronised tensor parallelism
  std::int64_t streams = 1;     ///< residual streams on one rank: the reference of a partially synchronised tp
  TpOverlap tp_overlap = TpOverlap::none;
  std::int64_t tp_overlap_chunks = 4;  ///< pieces of a GEMM and its collective when chunked
  ScheduleKind schedule = plain_schedule;
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;   ///< layers per stage that recompute, 0 means all
  RecomputeModules recompute_modules;  ///< parts of a layer that are computed again; empty: what `recompute` says
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;  ///< 0: as many as the stages between
  bool embedding_slot = false, head_slot = false;              ///< each takes the place of a layer
  CpMethod cp_method = CpMethod::ring;
  std::int64_t ranks() const { return dp * tp * pp * cp; }
  std::int64_t degree(Axis axis) const;
  bool operator==(Cut const&) const = default;
};
static_assert(std::is_trivially_copyable_v<Cut>);  // a plan holds millions

/// Every degree by the name of its flag, in the order in which texts of a cut have them.
using NamedDegrees = std::array<std::pair<std::string_view, std::int64_t>, 7>;
NamedDegrees named_degrees(Cut const& cut);

/// "tp 8, pp 16, dp 128, zero 1, sp": what the cut does, where it does anything; empty for a cut that leaves all whole.
std::string to_string(Cut const& cut);
/// "8 ranks = dp 2 x tp 2 x pp 2 x cp 1".
std::string ranks_text(Cut const& cut);

/// Model chunks a rank holds: as many as the schedule has, or vpp where it takes one.
std::int64_t chunks_per_rank(Cut const& cut);
/// Distinct pieces that the layers are cut into: the chunks of all stages, copies counted once.
std::int64_t model_chunks(Cut const& cut);

/// Every rule the pair breaks, in words that name the rule, the value and the legal values; empty when it is legal.
/// The one place of the cut rules: `run`, `sweep`, `simulate` and `plan` all ask here. `pieces`: the layers of each
/// piece of the model where a layout says them.
std::vector<std::string> illegal_reasons(ModelConfig const& model, Cut const& cut,
                                         std::vector<std::int64_t> const& pieces = {});

/// Tensor-parallel degrees that every cut of the model allows, ascending, up to `limit`.
std::vector<std::int64_t> legal_tp(ModelConfig const& model, std::int64_t limit);

/// "1, 2, 4", for messages.
std::string list_text(std::vector<std::int64_t> const& values);

/// ceil(vocab / (128*tp)) * 128*tp (Megatron make-vocab-size-divisible-by).
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisible_by = 128);

}  // namespace shardbench
