// Combinations of every axis and knob, generated: whatever resolves, lowers and has kernels is run with parity, so that
// a strategy that becomes executable joins by itself.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>

#include "kernels/core/error.hpp"
#include "tests/harness/exec/expect_parity.hpp"

namespace shardbench::test {
namespace {

/// The smallest members of each family that every cut below divides.
ModelConfig tiny(ModelConfig m) {
  m.hidden = 32, m.ffn_hidden = 64, m.head_dim = 32 / m.heads;
  m.vocab = 100;
  return m;
}

ModelConfig tiny_experts(std::int64_t layers) {
  ModelConfig m = tiny(small_llama(layers, 8, 8));
  m.name = "small-experts";
  m.moe.emplace();
  m.moe->experts = 8, m.moe->top_k = 2, m.moe->ffn_hidden = 32;
  return m;
}

/// A configuration as drawn: legal or not.
struct Draw {
  int family = 0;  ///< gpt, llama, experts
  std::int64_t layers = 2, seq = 16, micro_batch = 1, global_batch = 8;
  double dropout = 0, clip_grad = 0, bucket_mb = 25;
  Dtype precision = Dtype::f32;
  Scope scope = Scope::model;
  Cut cut;
};

/// The experiment, or nothing when some rule, the lowering or the kernels refuse it.
std::optional<Experiment> runnable(Draw const& d, std::string* why = nullptr) {
  Experiment e;
  ModelConfig const gpt = tiny(small_gpt(d.layers));
  e.model = d.family == 0 ? gpt : d.family == 1 ? tiny(small_llama(d.layers)) : tiny_experts(d.layers);
  e.model_name = e.model.name;
  e.cut = d.cut;
  e.seq = d.seq, e.micro_batch = d.micro_batch, e.global_batch = d.global_batch;
  e.precision = d.precision, e.scope = d.scope;
  e.dropout = d.dropout, e.clip_grad = d.clip_grad, e.bucket_mb = d.bucket_mb;
  e.device = DeviceKind::cpu;
  try {
    resolve(e);
    static_cast<void>(lower(unsharded(e), 0));
    for (std::int64_t rank = 0; rank < e.ranks; ++rank) static_cast<void>(lower(e, rank));
  } catch (InputError const& error) {
    if (why) *why = error.what();
    return std::nullopt;
  }
  return e;
}

/// Every way to spend the ranks on dp, tp, pp and cp, with each knob that may go with it.
std::vector<Draw> all_draws(std::int64_t ranks) {
  std::vector<Draw> draws;
  auto const degrees = [](std::int64_t most) {
    std::vector<std::int64_t> d;
    for (std::int64_t i = 1; i <= most; i *= 2) d.push_back(i);
    return d;
  };
  for (std::int64_t const tp : degrees(ranks))
    for (std::int64_t const pp : degrees(ranks / tp))
      for (std::int64_t const cp : degrees(ranks / tp / pp))
        for (int const zero : {0, 1, 2, 3})
          for (std::int64_t const vpp : {1, 2})
            for (bool const sp : {false, true})
              for (Recompute const recompute : {Recompute::none, Recompute::selective, Recompute::full})
                for (int const family : {0, 1, 2}) {
                  Draw d;
                  Cut& p = d.cut;
                  p.tp = tp, p.pp = pp, p.cp = cp, p.dp = ranks / (tp * pp * cp);
                  p.zero_stage = zero, p.vpp = vpp, p.sequence_parallel = sp, p.recompute = recompute;
                  bool const idle = (zero > 0 && p.dp == 1) || (vpp > 1 && pp == 1) || (sp && tp == 1);
                  if (idle) continue;
                  d.family = family;
                  if (family == 2) p.ep = p.dp;
                  d.layers = std::max<std::int64_t>(2, pp * vpp);
                  draws.push_back(d);
                }
  return draws;
}

/// What a combination is made of, for the test that all of it was seen.
std::set<std::string> parts_of(Cut const& p) {
  std::set<std::string> parts;
  auto const add = [&](bool is, char const* name) {
    if (is) parts.insert(name);
  };
  add(p.dp > 1, "dp"), add(p.tp > 1, "tp"), add(p.pp > 1, "pp"), add(p.vpp > 1, "vpp"), add(p.cp > 1, "cp");
  add(p.ep > 1, "ep"), add(p.zero_stage > 0, "zero"), add(p.sequence_parallel, "sp");
  add(p.recompute != Recompute::none, "recompute");
  return parts;
}

TEST(Matrix, CombinationsOfAllAxes) {
  std::int64_t const ranks = world().size();
  std::vector<Draw> draws = all_draws(ranks);
  // The same order on every rank and machine; pairs of parts that were not seen yet come first.
  std::mt19937 random(20260101);
  for (std::size_t i = draws.size(); i > 1; --i) std::swap(draws[i - 1], draws[random() % i]);
  std::size_t const wanted = ranks == 2 ? 22 : 26;
  std::size_t ran = 0;
  std::set<std::pair<std::string, std::string>> seen;
  for (bool const fresh_only : {true, false})
    for (Draw& d : draws) {
      if (ran == wanted || d.layers == 0) continue;
      auto const parts = parts_of(d.cut);
      auto const before = seen.size();
      std::set<std::pair<std::string, std::string>> with = seen;
      for (auto const& a : parts)
        for (auto const& b : parts) with.emplace(a, b);
      if (fresh_only && with.size() == before) continue;
      auto const e = runnable(d);
      d.layers = 0;  // taken, or refused for good
      if (!e) continue;
      seen = std::move(with);
      expect_parity(*e, 1);
      ++ran;
    }
  EXPECT_EQ(ran, wanted) << "at least 60 combinations over 2, 4 and 8 ranks";
  for (char const* part : {"dp", "tp", "pp", "zero", "sp", "recompute"})
    EXPECT_TRUE(seen.contains({part, part}) || (part == std::string("vpp") && ranks == 2)) << part;
}

/// Any combination, from the bits of `random`.
Draw random_draw(std::mt19937& random, std::int64_t ranks) {
  auto const below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
  };
  auto const chance = [&](int percent) { return below(100) < percent; };
  Draw d;
  Cut& p = d.cut;
  std::int64_t left = ranks;
  for (std::int64_t* const degree : {&p.tp, &p.pp, &p.cp}) {
    while (left > 1 && chance(35)) *degree *= 2, left /= 2;
  }
  p.dp = left;
  d.family = static_cast<int>(below(3));
  p.schedule = static_cast<ScheduleKind>(below(static_cast<std::int64_t>(ScheduleKind::size_)));
  if (p.schedule == ScheduleKind::interleaved) p.vpp = 2;
  if (p.pp == 1) p.schedule = ScheduleKind::one_f_one_b, p.vpp = 1;
  p.zero_stage = p.dp > 1 ? static_cast<int>(below(4)) : 0;
  p.sequence_parallel = p.tp > 1 && chance(40);
  if (p.tp > 1 && chance(30)) p.tp_overlap = TpOverlap::chunked, p.tp_overlap_chunks = 1 + below(5);
  if (p.tp > 1 && !p.sequence_parallel && chance(30)) p.tp_sync_fraction = 0.25 * static_cast<double>(below(4));
  p.recompute = static_cast<Recompute>(below(3));
  if (p.recompute != Recompute::none && chance(30)) p.recompute_layers = 1;
  p.cp_method = static_cast<CpMethod>(below(3));
  if (d.family == 2) p.ep = std::int64_t{1} << below(4);
  d.layers = model_chunks(p) + below(3);
  d.micro_batch = 1 + below(2);
  d.global_batch = d.micro_batch * p.dp * (chance(30) ? 1 + below(3) : 2 * p.pp);
  d.seq = 8 * (1 + below(3));
  d.precision = chance(25) ? Dtype::bf16 : Dtype::f32;
  d.scope = chance(15) ? Scope::layer : Scope::model;
  d.dropout = chance(25) ? 0.1 : 0;
  d.clip_grad = chance(30) ? 0.3 : 0;
  d.bucket_mb = chance(50) ? 0.01 : 25;
  return d;
}

// SHARDBENCH_TEST_SEED draws others; the seed is in the trace of a failure.
TEST(Matrix, RandomLegalCombinations) {
  char const* const given = std::getenv("SHARDBENCH_TEST_SEED");
  auto const seed = static_cast<unsigned>(given ? std::strtoul(given, nullptr, 10) : 7);
  std::mt19937 random(seed);
  int ran = 0, drawn = 0;
  for (; ran < 12 && drawn < 2000; ++drawn) {
    std::optional<Experiment> const e = runnable(random_draw(random, world().size()));
    if (!e) continue;
    SCOPED_TRACE(fmt::format("seed {}, draw {}", seed, drawn));
    expect_parity(*e, 1);
    ++ran;
  }
  EXPECT_EQ(ran, 12) << drawn << " drawn";
}

}  // namespace
}  // namespace shardbench::test
