#include "harness/schedule/schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/schedule/schedule_rules.hpp"
#include "harness/simulate/simulate.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {
namespace {

/// Legal sizes of every kind, small and odd ones too.
std::vector<PipelineSchedule> many_schedules() {
  std::vector<PipelineSchedule> all;
  for (ScheduleKind const kind : enum_values<ScheduleKind>())
    for (std::int64_t stages = 1; stages <= 8; ++stages)
      for (std::int64_t chunks = 1; chunks <= (rules_of(kind).takes_vpp() ? 3 : 1); ++chunks)
        for (std::int64_t const m : {1, 2, 3, 5, 8, 16, 20}) {
          try {
            all.push_back(make_schedule(kind, stages, chunks, m));
          } catch (IllegalConfig const&) {
          }
        }
  return all;
}

std::string name_of(PipelineSchedule const& s) {
  return fmt::format("{} stages {} chunks {} microbatches {}", to_string(s.kind), s.stages, s.chunks, s.microbatches);
}

TEST(Schedule, EachMicrobatchOfEachChunkOnceForwardBeforeBackward) {
  for (PipelineSchedule const& s : many_schedules()) {
    SCOPED_TRACE(name_of(s));
    bool const two_way = rules_of(s.kind).mirrored();
    for (auto const& actions : s.order) {
      std::map<std::pair<std::int32_t, std::int32_t>, int> forwards, inputs, weights;
      auto const back = [&](std::int32_t c, std::int32_t m, bool input, bool weight) {
        EXPECT_EQ((forwards[{c, m}]), 1);
        EXPECT_TRUE(input || (inputs[{c, m}]) == 1) << "a weight gradient needs its input gradient";
        inputs[{c, m}] += input, weights[{c, m}] += weight;
      };
      for (Action const& a : actions) {
        if (a.kind == ActionKind::forward || a.kind == ActionKind::pair) ++forwards[{a.chunk, a.microbatch}];
        if (a.kind == ActionKind::pair) back(a.pair_chunk, a.pair_microbatch, true, true);
        if (a.kind == ActionKind::backward) back(a.chunk, a.microbatch, true, true);
        if (a.kind == ActionKind::backward_input) back(a.chunk, a.microbatch, true, false);
        if (a.kind == ActionKind::backward_weight) back(a.chunk, a.microbatch, false, true);
      }
      // DualPipe's directions take half of the microbatches each.
      auto const expected = static_cast<std::size_t>(two_way ? s.microbatches : s.microbatches * s.chunks);
      for (auto const* counts : {&forwards, &inputs, &weights}) {
        EXPECT_EQ(counts->size(), expected);
        for (auto const& [key, n] : *counts) EXPECT_EQ(n, 1);
      }
    }
  }
}

TEST(Schedule, NoneDeadlocksAndTextReadsBack) {
  for (PipelineSchedule const& s : many_schedules()) {
    SCOPED_TRACE(name_of(s));
    ScheduleSummary summary;
    ASSERT_NO_THROW(summary = summarize_schedule(s, {1, 1, 1, 0.1}));
    EXPECT_GE(summary.bubble, -1e-9);
    for (bool const transfers : {false, true}) {
      PipelineSchedule whole = s;
      if (transfers) add_transfers(whole);
      PipelineSchedule const again = parse_schedule(to_text(whole));
      EXPECT_EQ(again.order, whole.order);
      EXPECT_EQ(to_text(again), to_text(whole));
    }
  }
}

// Case P01.
TEST(Schedule, WarmUpForwards) {
  auto const warmup = [](PipelineSchedule const& s, std::size_t stage) {
    int n = 0;
    for (Action const& a : s.order[stage]) {
      if (a.kind != ActionKind::forward) break;
      ++n;
    }
    return n - 1;  // the last of them belongs to the first pair of steady state
  };
  auto const plain = make_schedule(ScheduleKind::one_f_one_b, 8, 1, 8);
  for (int stage = 0; stage < 8; ++stage) EXPECT_EQ(warmup(plain, static_cast<std::size_t>(stage)), 7 - stage);
  auto const interleaved = make_schedule(ScheduleKind::interleaved, 4, 2, 8);
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_EQ(warmup(interleaved, static_cast<std::size_t>(stage)), 10 - 2 * stage);
  auto const few = make_schedule(ScheduleKind::interleaved, 4, 2, 4);
  EXPECT_EQ(warmup(few, 0) + 1, 8) << "never more than the m * v = 8 that there are";
}

TEST(Schedule, ActivationPeak) {
  for (int p = 1; p <= 8; ++p)
    for (int m : {1, 2, 4, 9}) {
      auto const one = summarize_schedule(make_schedule(ScheduleKind::one_f_one_b, p, 1, m), {});
      auto const gpipe = summarize_schedule(make_schedule(ScheduleKind::gpipe, p, 1, m), {});
      for (int i = 0; i < p; ++i) {
        EXPECT_EQ(one.activation_peak[static_cast<std::size_t>(i)], std::min(p - i, m));
        EXPECT_EQ(gpipe.activation_peak[static_cast<std::size_t>(i)], m);
      }
    }
}

TEST(ScheduleRules, EveryRowSaysAll) {
  for (ScheduleKind const kind : enum_values<ScheduleKind>()) {
    ScheduleRules const& rules = rules_of(kind);
    SCOPED_TRACE(rules.name);
    for (std::string_view const words : {rules.name, rules.summary, rules.source}) EXPECT_FALSE(words.empty());
    EXPECT_TRUE(rules.microbatches.fit && rules.microbatches.problem && rules.sends_ahead && rules.order);
    ASSERT_TRUE(rules.in_flight && rules.bubble && rules.longest_path);
    EXPECT_TRUE(rules.layout == PieceLayout::round_robin || rules.fixed_chunks == 2) << "a fold has two chunks a stage";
    EXPECT_EQ(rules.bubble({4, 2, 16}, {}).has_value(), !rules.bubble_formula.empty());
    PipelineSchedule const s = make_schedule(kind, 4, 2, 16);
    EXPECT_EQ(s.splits_backward(), rules.splits_backward);
  }
}

// What is printed as the closed form, against the schedule played: equal parts, for which all of them hold.
TEST(ScheduleRules, ClosedFormsAreTheBubblesOfPlayedSchedules) {
  for (ScheduleKind const kind : enum_values<ScheduleKind>())
    for (std::int64_t p = 2; p <= 8; p += 2)
      for (std::int64_t const m : {2 * p, 4 * p}) {
        PipelineSchedule const s = make_schedule(kind, p, 2, m);
        double const unit = static_cast<double>(p) / s.pieces();
        double const played = summarize_schedule(s, {unit, unit, unit, 0}).bubble;
        auto const closed = rules_of(kind).bubble({s.stages * 1.0, s.chunks * 1.0, s.microbatches * 1.0}, {});
        if (!closed) continue;
        // Pairs are played part after part: the one forward that a whole pair would wait for is saved.
        double const saved = rules_of(kind).mirrored() && p > 2 ? 1 : 0;
        EXPECT_NEAR(played, *closed - saved, 1e-9) << rules_of(kind).name << " p " << p << " m " << m;
      }
}

// (p-1)(F+B-2W) with B the whole backward pass: a third of what 1F1B has for equal parts.
TEST(ScheduleRules, BubbleOfZbH1IsNotThatOf1F1B) {
  for (double p = 2; p <= 8; ++p) {
    double const f = 3, i = 4, w = 2;
    EXPECT_EQ(*rules_of(ScheduleKind::zb_h1).bubble({p, 1, 3 * p}, {f, i, w}), (p - 1) * (f + (i + w) - 2 * w));
    EXPECT_EQ(*rules_of(ScheduleKind::one_f_one_b).bubble({p, 1, 3 * p}, {f, i, w}), (p - 1) * (f + i + w));
    auto const played =
        summarize_schedule(make_schedule(ScheduleKind::zb_h1, static_cast<int>(p), 1, static_cast<int>(3 * p)), {});
    EXPECT_NEAR(played.bubble, p - 1, 1e-9);
  }
}

TEST(Schedule, BubblesOfTheClosedForms) {
  double const f = 3, bi = 4, w = 2, b = bi + w;
  PassTimes const costs{f, bi, w, 0};
  for (int p = 1; p <= 8; ++p)
    for (int m : {2 * p, 3 * p}) {
      for (ScheduleKind const kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
        EXPECT_NEAR(summarize_schedule(make_schedule(kind, p, 1, m), costs).bubble, (p - 1) * (f + b), 1e-9)
            << p << " " << m;
      for (int v = 2; v <= 3; ++v) {
        auto const s = summarize_schedule(make_schedule(ScheduleKind::interleaved, p, v, m), {f / v, bi / v, w / v, 0});
        EXPECT_NEAR(s.bubble, (p - 1) * (f + b) / v, 1e-9) << "p " << p << " v " << v << " m " << m;
      }
    }
  // The zero-bubble forms hold for equal parts.
  for (int p = 2; p <= 8; ++p) {
    auto const zb = summarize_schedule(make_schedule(ScheduleKind::zb_h1, p, 1, 3 * p), {1, 1, 1, 0});
    EXPECT_LE(zb.bubble, (p - 1) * 3.0 + 1e-9);
    EXPECT_GE(zb.bubble, (p - 1) * (1 + 2 - 2.0) - 1e-9);
    for (auto const peak : zb.activation_peak) EXPECT_LE(peak, p);
    if (p % 2) continue;
    // A pair is played part after part, F&B = F + B: the one forward that a whole pair would wait for is saved.
    auto const dual = summarize_schedule(make_schedule(ScheduleKind::dualpipe, p, 1, 4 * p), costs);
    EXPECT_NEAR(dual.bubble, p == 2 ? 0 : (p / 2.0 - 1) * (f + b + b - 3 * w) - f, 1e-9) << p;
    for (auto const peak : dual.activation_peak) EXPECT_LE(peak, p + 1);
  }
}

// Case P02.
TEST(Schedule, BubbleFractions) {
  auto const fraction = [](ScheduleKind kind, int p, int v, int m) {
    return summarize_schedule(make_schedule(kind, p, v, m), {}).bubble_fraction;
  };
  EXPECT_NEAR(fraction(ScheduleKind::one_f_one_b, 8, 1, 8), 7.0 / 15, 1e-9);
  EXPECT_NEAR(fraction(ScheduleKind::interleaved, 4, 2, 8), 3.0 / 19, 1e-9);
  EXPECT_NEAR(fraction(ScheduleKind::one_f_one_b, 4, 1, 10), 3.0 / 13, 1e-9);
  auto const s = summarize_schedule(make_schedule(ScheduleKind::interleaved, 4, 2, 8), {});
  EXPECT_NEAR(s.bubble / s.ideal, 3.0 / (8 * 2), 1e-9) << "over useful work";
}

// Case P05.
TEST(Schedule, FewMicrobatchesEndOrAreRefused) {
  auto const few = make_schedule(ScheduleKind::one_f_one_b, 4, 1, 2);
  for (int stage = 0; stage < 4; ++stage) {
    auto const& order = few.order[static_cast<std::size_t>(stage)];
    auto const backward = std::ranges::find(order, ActionKind::backward, &Action::kind);
    EXPECT_EQ(backward - order.begin(), std::min(4 - stage - 1, 2) + (stage > 1 ? 1 : 0))
        << "warm-up min(pp-rank-1, m)";
  }
  EXPECT_NO_THROW(summarize_schedule(few, {}));
  for (std::int64_t const m : {3, 10, 11})
    EXPECT_NO_THROW(summarize_schedule(make_schedule(ScheduleKind::interleaved, 4, 2, m), {})) << m;
  EXPECT_THROW(make_schedule(ScheduleKind::dualpipe, 3, 1, 8), IllegalConfig);
  EXPECT_THROW(make_schedule(ScheduleKind::dualpipe, 4, 1, 6), IllegalConfig);
  EXPECT_THROW(make_schedule(ScheduleKind::gpipe, 0, 1, 1), IllegalConfig);
  EXPECT_THROW(make_schedule(ScheduleKind::gpipe, 1, 1, 0), IllegalConfig);
}

TEST(Schedule, ADeadlockNamesEachStagesNextAction) {
  auto s = make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2);
  // Stage 0 wants a gradient before it has sent the activation that leads to it.
  s.order[0] = {{.kind = ActionKind::forward, .microbatch = 0},
                {.kind = ActionKind::backward, .microbatch = 1},
                {.kind = ActionKind::forward, .microbatch = 1},
                {.kind = ActionKind::backward, .microbatch = 0}};
  s.order[1] = {{.kind = ActionKind::forward, .microbatch = 1},
                {.kind = ActionKind::forward, .microbatch = 0},
                {.kind = ActionKind::backward, .microbatch = 1},
                {.kind = ActionKind::backward, .microbatch = 0}};
  s.order[0].erase(s.order[0].begin());
  try {
    summarize_schedule(s, {});
    ADD_FAILURE() << "no deadlock was found";
  } catch (Error const& e) {
    std::string const message = e.what();
    EXPECT_NE(message.find("stage 0: B of chunk 0 microbatch 1"), std::string::npos) << message;
    EXPECT_NE(message.find("stage 1: "), std::string::npos) << message;
  }
}

TEST(ParseSchedule, RefusesWithLineAndColumn) {
  for (char const* text :
       {"", "gpipe", "gpipe stages=1 chunks=1 microbatches=1", "round stages=1 chunks=1 microbatches=1\n\n",
        "gpipe stages=1 chunks=1 microbatches=1\nF0.1\n", "gpipe stages=1 chunks=1 microbatches=1\nF0.0  B0.0\n",
        "gpipe stages=1 chunks=1 microbatches=1\nX0.0\n", "gpipe stages=1 chunks=1 microbatches=1\nF0.0\nF0.0\n",
        "gpipe stages=2 chunks=1 microbatches=1\nSEND0.0a2\n\n",
        "gpipe stages=2 chunks=1 microbatches=1\nSEND0.0b1\n\n"}) {
    try {
      parse_schedule(text);
      ADD_FAILURE() << text << " was read";
    } catch (InputError const& e) {
      EXPECT_NE(std::string(e.what()).find("schedule line "), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace shardbench
