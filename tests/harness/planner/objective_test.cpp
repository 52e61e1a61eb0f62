#include "harness/planner/objective.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "harness/planner/count_bound.hpp"
#include "harness/planner/demands.hpp"
#include "harness/planner/device_search.hpp"
#include "harness/planner/explain.hpp"
#include "harness/planner/screen.hpp"
#include "harness/planner/serve_plan.hpp"
#include "harness/planner/what_if.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/planner/planned_models.hpp"

namespace shardbench::test {
namespace {

TEST(Objective, NamesAreReadBack) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Objective::size_); ++i)
    EXPECT_EQ(parse_objective(to_string(static_cast<Objective>(i))), static_cast<Objective>(i));
  EXPECT_THROW(static_cast<void>(parse_objective("speed")), InputError);
}

TEST(ParetoFront, KeepsWhatNothingBeats) {
  std::vector<PlanScore> const points{{1, 9, 5}, {2, 8, 5}, {2, 9, 4}, {3, 8, 5}, {1, 9, 5}, {9, 9, 1}};
  EXPECT_EQ(pareto_front(points), (std::vector<bool>{true, true, true, false, true, true}));
}

// The kept front equals the one found by comparing every pair, over points with many equal values.
TEST(ScreenedFront, EqualsComparingEveryPair) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> value(1, 30);
  ScreenedFront front;
  std::vector<PlanScore> all;
  for (int i = 0; i < 400; ++i) {
    PlanCost const cost{.step_ms = static_cast<double>(value(random)),
                        .memory_bytes = static_cast<double>(value(random))};
    front.add({}, cost);
    all.push_back({cost.step_ms, cost.memory_bytes, cost.step_ms});
    std::set<std::pair<double, double>> expected, found;
    std::vector<bool> const kept = pareto_front(all);
    for (std::size_t k = 0; k < all.size(); ++k)
      if (kept[k]) expected.emplace(all[k].time_ms, all[k].memory_bytes);
    for (ScreenedPoint const& p : front.points()) found.emplace(p.cost.step_ms, p.cost.memory_bytes);
    ASSERT_EQ(found, expected);
  }
}

// Whatever the counts and whichever of them meet the demand, the answer is the least of those.
TEST(FewestDevices, IsTheLeastOfAllThatMeet) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::set<std::int64_t> some, enough;
    for (int i = 0; i < 12; ++i) some.insert(1 + static_cast<std::int64_t>(random() % 1000));
    for (std::int64_t const n : some)
      if (random() % 4 == 0) enough.insert(n);
    std::vector<std::int64_t> const counts(some.begin(), some.end());
    auto const attempt = [&](std::int64_t n) {
      return DeviceTrial{.devices = n, .possible = true, .meets = enough.contains(n), .time = 1};
    };
    DeviceSearch const search = fewest_devices(counts, counts.size(), attempt);
    EXPECT_EQ(search.devices, enough.empty() ? 0 : *enough.begin());
    EXPECT_TRUE(search.untried.empty());
  }
}

TEST(FewestDevices, SaysWhatItDidNotTry) {
  std::vector<std::int64_t> counts(100);
  std::iota(counts.begin(), counts.end(), 1);
  auto const attempt = [](std::int64_t n) {
    return DeviceTrial{.devices = n, .possible = true, .meets = n >= 50, .time = 1};
  };
  DeviceSearch const search = fewest_devices(counts, 10, attempt);
  EXPECT_EQ(search.devices, 80);  // 1 to 10, then 20, 40, 80
  EXPECT_EQ(search.untried.size(), 67u);
  EXPECT_EQ(search.untried.front(), 11);
  EXPECT_EQ(search.untried.back(), 79);
}

// The least of every count up to 64, each planned whole: batch 12 leaves awkward ones, limits fall between their steps.
TEST(FewestDevices, EqualsPlanningEveryCount) {
  CostModel const model = h100();
  Experiment const base = base_of("gpt2-xl", 6, 1024, 12);
  PlanDemands const demands{.fix = {"tp-overlap=none", "schedule=1f1b|interleaved|zb-h1"}, .exclude = {}};
  std::map<std::int64_t, double> fastest;
  for (std::int64_t n = 1; n <= 64; ++n)
    if (std::optional<PlanRequest> const request = legal_request(base, n, demands))
      if (PlanResult const all = plan(*request, model, {.top = 1}); !all.best.empty())
        fastest[n] = all.best.front().step_ms;
  ASSERT_GT(fastest.size(), 20u);
  std::vector<std::int64_t> const counts = possible_counts(base, demands, 1, 64);
  for (auto const& [n, ms] : fastest) EXPECT_TRUE(std::ranges::find(counts, n) != counts.end()) << n;
  PlanRequest const shared{.base = base, .devices = 1, .axes = {}};
  PlanCoster coster(shared, model);
  for (double const share : {0.03, 0.05, 0.08, 0.12, 0.2, 0.4, 0.7}) {
    double const enough_ms = share * fastest.begin()->second;
    auto const meets = [&](auto const& each) { return each.second <= enough_ms; };
    auto const least = std::ranges::find_if(fastest, meets);
    DeviceSearch const search = fewest_devices(counts, counts.size(), [&](std::int64_t n) {
      std::optional<PlanRequest> const request = legal_request(base, n, demands);
      return request ? try_step(*request, model, {.top = 1, .simulated = 4}, enough_ms, coster)
                     : DeviceTrial{.devices = n};
    });
    EXPECT_EQ(search.devices, least == fastest.end() ? 0 : least->first) << share;
  }
}

// No count's fastest step beats the bound, with and without pairs of stages, and the bound is of use: within a third of
// the fastest for most counts.
TEST(CountBound, IsBelowTheFastestStepOfEveryCount) {
  CostModel const model = h100();
  Experiment const base = base_of("gpt2-xl", 6, 1024, 96);
  for (char const* const schedules : {"schedule=1f1b|interleaved|zb-h1|zb-v", "schedule=1f1b|dualpipe"}) {
    PlanDemands const demands{.fix = {"zero=1", "recompute=none", "micro-batch=1|2|4", schedules}, .exclude = {}};
    PlanRequest const widest{.base = base, .devices = 1, .axes = axes_for(base, 24, demands)};
    PlanCoster coster(widest, model);
    CountBound const bound(widest, coster);
    std::vector<double> shares;
    for (std::int64_t n = 1; n <= 24; ++n) {
      std::optional<PlanRequest> const request = legal_request(base, n, demands);
      if (!request) continue;
      PlanResult const all = plan(*request, model, {.top = 1, .simulated = 4}, coster);
      if (all.best.empty()) continue;
      shares.push_back(bound.step_ms(n) / all.best.front().step_ms);
      EXPECT_LE(shares.back(), 1.0) << schedules << " " << n;
    }
    ASSERT_GT(shares.size(), 12u);
    std::ranges::sort(shares);
    EXPECT_GT(shares[shares.size() / 2], 2.0 / 3) << schedules;
    EXPECT_TRUE(std::isinf(bound.step_ms(7 * 11)));
  }
}

// Serving: the least of every count up to 12.
TEST(FewestDevices, EqualsServingOnEveryCount) {
  CostModel const model = h100();
  ServeRequest r;
  r.base = base_of("llama3.1-8b", 4, 256);
  r.base.context = 256, r.sequences = 12;
  double const alone = plan_serving(r, model, {.top = 1, .simulated = 1}, Objective::latency).best.front().tpot_ms;
  for (double const share : {0.9, 0.7, 0.55, 0.45}) {
    r.tpot_limit_ms = share * alone;
    auto const meets = [&](std::int64_t n) {
      r.devices = n;
      try {
        return !plan_serving(r, model, {.top = 1, .simulated = 4}, Objective::gpus).best.empty();
      } catch (InputError const&) {
        return false;
      }
    };
    std::int64_t least = 0;
    for (std::int64_t n = 1; n <= 12 && least == 0; ++n)
      if (meets(n)) least = n;
    std::vector<std::int64_t> const counts = serving_counts(r, model, 1, 1, 12);
    DeviceSearch const search = fewest_devices(counts, counts.size(), [&](std::int64_t n) {
      return DeviceTrial{.devices = n, .possible = true, .meets = meets(n), .time = 1};
    });
    EXPECT_EQ(search.devices, least) << share;
  }
}

// No larger micro-batch that was left out is faster than the fastest that was costed and fits.
TEST(Screen, LeavesOutNoFasterMicroBatch) {
  CostModel const model = h100();
  std::int64_t left_out = 0;
  for (auto const& [name, layers, seq, batch] :
       {std::tuple{"gpt2", 12, 1024, 256}, {"gpt2-xl", 8, 1024, 96}, {"llama3.1-8b", 8, 4096, 64}}) {
    PlanRequest const request = request_for(base_of(name, layers, seq, batch), 8, {});
    PlanCoster coster(request, model), other(request, model);
    double fastest = 0, without = 0;
    std::int64_t costed = 0;
    auto const take = [](double& least, PlanCost const* cost) {
      if (cost && cost->memory_bytes <= 80e9) least = least == 0 ? cost->step_ms : std::min(least, cost->step_ms);
    };
    ScreenCount const count = for_each_cost(request, coster, 80e9, [&](Candidate const&, PlanCost const* cost) {
      ++costed;
      take(fastest, cost);
    });
    SpaceCount const whole = for_each_candidate(request, [&](Candidate const& c) { take(without, other.cost(c)); });
    EXPECT_EQ(count.space.legal, whole.legal);
    EXPECT_EQ(costed + count.left_out, whole.legal);
    left_out += count.left_out;
    EXPECT_EQ(fastest, without) << name;
  }
  EXPECT_GT(left_out, 1000);
}

TEST(Bend, IsTheLastThatStillPays) {
  std::vector<std::int64_t> const devices{1, 2, 4, 8};
  EXPECT_EQ(bend_of(devices, {80, 40, 20, 10}), 3u);
  EXPECT_EQ(bend_of(devices, {80, 40, 24, 16}), 2u);  // 40/24 = 1.67 pays, 24/16 = 1.5 does not
  EXPECT_EQ(bend_of(devices, {80, 60, 30, 15}), 0u);
}

TEST(Demands, TheOneThatLeavesNothingIsNamed) {
  Experiment const base = base_of("gpt2", 4, 128, 8);
  auto const message = [&](PlanDemands const& demands) -> std::string {
    try {
      require_legal_point(request_for(base, 8, demands), demands);
    } catch (InputError const& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(message({.fix = {"tp=2"}, .exclude = {}}), "");
  EXPECT_NE(message({.fix = {"pp=2", "tp=3"}, .exclude = {}}).find("--fix tp=3: leaves no legal cut"),
            std::string::npos);
  std::string const both = message({.fix = {"tp=4"}, .exclude = {"pp=1|2"}});
  EXPECT_NE(both.find("--fix tp=4 and --exclude pp=1|2: together"), std::string::npos) << both;
}

// Every candidate's closed-form memory is at least that of the one found among the frugal ones.
TEST(Explain, SmallestInMemoryIsTheSmallest) {
  CostModel const model = h100();
  PlanRequest const request = request_for(base_of("gpt2-xl", 8, 1024, 16), 8, {});
  SmallCandidate const smallest = smallest_in_memory(request, model).front();
  PlanCoster coster(request, model);
  for_each_candidate(request, [&](Candidate const& c) {
    PlanCost const* const cost = coster.cost(c);
    if (!cost) return;
    EXPECT_GE(cost->memory_bytes, 0.97 * smallest.needed_bytes);
  });
}

// A block of Megatron's 1T has 12 h^2 + 13 h parameters (h 25,600) of 18 bytes each: 142 GB of states alone.
TEST(Explain, ALayerThatOutgrowsADeviceIsNamedWithItsTp) {
  PlanRequest const request = request_for(base_of("megatron-1t", 4, 2048, 8), 8, {});
  std::vector<OversizedLayer> const found = oversized_layers(request, h100(), 80e9);
  ASSERT_EQ(found.size(), 1u);
  double const h = 25600;
  EXPECT_NEAR(found[0].parameters, 12 * h * h + 13 * h, 1e-4 * found[0].parameters);
  EXPECT_GT(found[0].bytes, 18 * found[0].parameters);
  EXPECT_EQ(found[0].tp, 2);
  EXPECT_LE(found[0].bytes_with_tp, 80e9);
  EXPECT_TRUE(oversized_layers(request_for(base_of("gpt2", 4, 1024, 8), 8, {}), h100(), 80e9).empty());
}

TEST(Explain, DifferencesAddUpToTheTimeLost) {
  CostModel const model = h100();
  PlanRequest const request = request_for(base_of("gpt2-xl", 8, 1024, 32), 8, {});
  Candidate const plain{.dp = 8}, piped{.pp = 4, .dp = 2};
  PlannedPoint const a = look_closer(request, model, plain), b = look_closer(request, model, piped);
  double sum = 0;
  for (StepPart const& d : part_differences(a.prediction, b.prediction)) sum += d.ms;
  EXPECT_NEAR(sum, b.step_ms - a.step_ms, 0.01 * a.step_ms);
  double whole = 0;
  for (StepPart const& part : step_parts(b.prediction)) whole += part.ms;
  EXPECT_NEAR(whole, b.step_ms, 1e-6 * b.step_ms);
}

// GPT-2 in data parallelism alone beats every cut of the model, and the plan says by how much.
TEST(PlanFor, PlainDataParallelismIsComparedWithTheFastestModelCut) {
  PlanRequest const request = request_for(base_of("gpt2", 12, 1024, 64), 8, {.fix = {"micro-batch=8"}, .exclude = {}});
  ObjectivePlan const plan = plan_for(request, h100(), {.top = 2}, Objective::step_time, true);
  ASSERT_FALSE(plan.result.best.empty());
  ASSERT_TRUE(plan.fastest_model_cut);
  Candidate const& cut = plan.fastest_model_cut->candidate;
  EXPECT_GT(cut.tp * cut.pp, 1);
  EXPECT_GT(plan.fastest_model_cut->step_ms, plan.result.best.front().step_ms);
  ASSERT_GE(plan.front.size(), 2u);
  for (std::size_t i = 1; i < plan.front.size(); ++i) {
    EXPECT_GE(plan.front[i].step_ms, plan.front[i - 1].step_ms);
    EXPECT_LT(plan.front[i].memory.needed_bytes, plan.front[i - 1].memory.needed_bytes);
  }
}

TEST(PlanFor, MemoryObjectiveNeedsLessThanTheFastest) {
  PlanRequest const request = request_for(base_of("gpt2-xl", 8, 1024, 32), 8, {});
  CostModel const model = h100();
  ObjectivePlan const fast = plan_for(request, model, {.top = 2}, Objective::step_time, false);
  ObjectivePlan const small = plan_for(request, model, {.top = 3}, Objective::memory, false);
  ASSERT_FALSE(small.result.best.empty());
  EXPECT_LT(small.result.best.front().memory.needed_bytes, fast.result.best.front().memory.needed_bytes);
  for (std::size_t i = 1; i < small.result.best.size(); ++i)
    EXPECT_GE(small.result.best[i].memory.needed_bytes, small.result.best[i - 1].memory.needed_bytes);
}

// Every legal point simulated one by one: within those that the plan saw, its front is the one found by comparing every
// pair; its ends are the answers of the two objectives and no point of these is better.
TEST(PlanFor, FrontIsThatOfAllSimulatedPoints) {
  CostModel const model = h100();
  PlanDemands const demands{
      .fix = {"micro-batch=1|2", "tp=1|2", "tp-overlap=none", "recompute=none|full", "schedule=1f1b|interleaved|zb-h1"},
      .exclude = {"zero=2"}};
  PlanRequest const request = request_for(base_of("gpt2", 4, 1024, 16), 4, demands);
  std::vector<std::pair<Candidate, PlanScore>> legal;
  for_each_candidate(request, [&](Candidate const& c) {
    try {
      PlannedPoint const p = look_closer(request, model, c);
      legal.push_back({c, {p.step_ms, p.memory.needed_bytes, p.step_ms}});
    } catch (IllegalConfig const&) {
      return;  // no program
    }
  });
  ObjectivePlan const whole = plan_for(request, model, {.top = 3}, Objective::step_time, true);
  ASSERT_LT(whole.simulated.size(), legal.size());
  std::vector<PlanScore> seen;
  for (auto const& [c, score] : legal)
    if (std::ranges::find(whole.simulated, c, &SimulatedPoint::candidate) != whole.simulated.end())
      seen.push_back(score);
  ASSERT_EQ(seen.size(), whole.simulated.size());
  std::vector<bool> const kept = pareto_front(seen);
  std::set<std::pair<double, double>> expected, found;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (kept[i]) expected.emplace(seen[i].time_ms, seen[i].memory_bytes);
  for (PlannedPoint const& p : whole.front) found.emplace(p.step_ms, p.memory.needed_bytes);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(whole.front.size(), expected.size()) << "equals are shown once";
  auto const time = [](auto const& each) { return each.second.time_ms; };
  auto const bytes = [](auto const& each) { return each.second.memory_bytes; };
  EXPECT_EQ(whole.front.front().step_ms, time(*std::ranges::min_element(legal, {}, time)));
  EXPECT_EQ(whole.front.back().memory.needed_bytes, bytes(*std::ranges::min_element(legal, {}, bytes)));
}

// gpt2-xl on 16: the smallest of a class beats the small end of the screened front in time and memory.
TEST(PlanFor, FrontIsNotWorseThanEitherObjective) {
  CostModel const model = h100();
  PlanRequest const request = request_for(base_of("gpt2-xl", 16, 1024, 64), 16, {});
  ObjectivePlan const whole = plan_for(request, model, {.top = 5}, Objective::step_time, true);
  ASSERT_FALSE(whole.front.empty());
  for (Objective const objective : {Objective::step_time, Objective::memory}) {
    ObjectivePlan const one = plan_for(request, model, {.top = 3}, objective, false);
    PlannedPoint const& end = objective == Objective::memory ? whole.front.back() : whole.front.front();
    EXPECT_LE(
        objective == Objective::memory ? end.memory.needed_bytes : end.step_ms,
        objective == Objective::memory ? one.result.best.front().memory.needed_bytes : one.result.best.front().step_ms);
    for (SimulatedPoint const& s : one.simulated)
      for (PlannedPoint const& p : whole.front)
        EXPECT_FALSE(s.score.time_ms <= p.step_ms && s.score.memory_bytes <= p.memory.needed_bytes &&
                     (s.score.time_ms < p.step_ms || s.score.memory_bytes < p.memory.needed_bytes));
  }
}

// A05: what a faster network would bring is counted, and never negative.
TEST(WhatIf, TwiceTheBandwidthHelpsACutThatCommunicates) {
  CostModel const model = h100();
  PlanRequest const request =
      request_for(base_of("llama3.1-8b", 2, 1024, 4), 16, {.fix = {"tp=16", "micro-batch=4"}, .exclude = {}});
  PlanResult const result = plan(request, model, {.top = 1});
  ASSERT_FALSE(result.best.empty());
  std::vector<WhatIf> const ifs = hardware_what_ifs(request, model, result.best.front(), {});
  ASSERT_EQ(ifs.size(), 6u);  // two network levels, both, memory bandwidth, memory, the next device
  EXPECT_LT(ifs[2].same_cut_ms, result.best.front().step_ms);
  EXPECT_EQ(ifs[5].change, "on b200");
  for (WhatIf const& w : ifs) EXPECT_LE(w.same_cut_ms, result.best.front().step_ms * (1 + 1e-9)) << w.change;
  EXPECT_EQ(next_system("tpu-v5p"), "");
}

}  // namespace
}  // namespace shardbench::test
