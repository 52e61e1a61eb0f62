#include "harness/config/cut.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/config/size_rules.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

std::string_view to_string(Axis axis) { return EnumNames<Axis>{"tp", "cp", "dp", "pp", "ep"}[axis]; }

std::string_view to_string(Recompute kind) { return EnumNames<Recompute>{"none", "selective", "full"}[kind]; }

std::string_view to_string(ZeroKeep keep) { return EnumNames<ZeroKeep>{"none", "weights", "all"}[keep]; }

std::string_view to_string(CpMethod method) { return EnumNames<CpMethod>{"ring", "all-gather", "ulysses"}[method]; }

std::string_view to_string(TpOverlap overlap) { return EnumNames<TpOverlap>{"none", "chunked"}[overlap]; }

std::int64_t Cut::degree(Axis axis) const { return EnumArray<Axis, std::int64_t>{{tp, cp, dp, pp, ep}}[axis]; }

NamedDegrees named_degrees(Cut const& c) {
  return {{{"tp", c.tp}, {"pp", c.pp}, {"dp", c.dp}, {"cp", c.cp}, {"ep", c.ep}, {"etp", c.etp}, {"vpp", c.vpp}}};
}

std::string to_string(Cut const& c) {
  std::vector<std::string> parts;
  for (auto const& [name, degree] : named_degrees(c))
    if (degree > 1) parts.push_back(fmt::format("{} {}", name, degree));
  if (c.pp > 1 && c.schedule != Cut{}.schedule && c.vpp == 1) parts.emplace_back(to_string(c.schedule));
  if (c.zero_stage > 0) parts.push_back(fmt::format("zero {}", c.zero_stage));
  if (c.sequence_parallel) parts.emplace_back("sp");
  if (c.tp_overlap != TpOverlap::none) parts.emplace_back("tp overlap");
  if (c.recompute != Recompute::none) parts.push_back(fmt::format("recompute {}", to_string(c.recompute)));
  if (!c.recompute_modules.empty()) parts.push_back("recompute " + to_string(c.recompute_modules));
  if (c.embedding_slot || c.head_slot)
    parts.push_back(fmt::format("{}{}{} as layer{}", c.embedding_slot ? "embedding" : "",
                                c.embedding_slot && c.head_slot ? " and " : "", c.head_slot ? "head" : "",
                                c.embedding_slot && c.head_slot ? "s" : ""));
  if (c.first_stage_layers > 0) parts.push_back(fmt::format("{} layers on the first stage", c.first_stage_layers));
  if (c.last_stage_layers > 0) parts.push_back(fmt::format("{} layers on the last stage", c.last_stage_layers));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ranks_text(Cut const& c) {
  return fmt::format("{} rank{} = dp {} x tp {} x pp {} x cp {}", c.ranks(), c.ranks() == 1 ? "" : "s", c.dp, c.tp,
                     c.pp, c.cp);
}

std::int64_t chunks_per_rank(Cut const& cut) { return rules_of(cut.schedule).chunks_a_stage(cut.vpp); }

std::int64_t model_chunks(Cut const& cut) { return cut.pp * rules_of(cut.schedule).pieces_a_stage(cut.vpp); }

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t divisible_by) {
  return round_up(vocab, divisible_by * tp);
}

}  // namespace shardbench
