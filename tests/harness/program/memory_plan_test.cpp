#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/program/closed_forms.hpp"
#include "tests/harness/program/programs.hpp"

namespace shardbench::test {
namespace {

/// Bytes of the arena during which ops of the replayed step: [begin, end) and the first and last op that touch them.
struct Held {
  std::int64_t begin, end, first, last;
  std::string name;
  bool lasts;
};

/// Every instance of every tensor with the span of ops, over the whole step, from its first to its last touch. A
/// temporary written anew in each run gives a span for each run.
std::vector<Held> held_ranges(StepProgram const& p, Replay const& replay, MemoryPlan const& plan) {
  std::map<std::tuple<std::int64_t, TensorId, std::int64_t>, Held> spans;  // run of a temporary, or -1
  std::int64_t at = 0;
  for (std::size_t r = 0; r < replay.runs().size(); ++r) {
    Run const& run = replay.runs()[r];
    auto const touch = [&](Op const& op) {
      for (auto const* refs : {&op.inputs, &op.outputs})
        for (TensorRef const& ref : *refs) {
          if (!ref.valid()) continue;
          TensorId const root = p.storage_of(ref.id);
          auto const& place = plan.places[root];
          std::int64_t const instance = place.instance_of.empty() ? 0 : place.instance_of[run.microbatch];
          std::int64_t const begin = place.offset + instance * place.stride;
          std::int64_t const life = place.residence == Residence::temporary ? static_cast<std::int64_t>(r)
                                    : place.residence == Residence::slot    ? -2 - run.microbatch
                                                                            : -1;
          auto const [it, fresh] = spans.try_emplace(
              {life, root, instance}, Held{begin, begin + p.tensors[root].bytes(), at, at, p.tensors[root].name,
                                           place.residence == Residence::persistent});
          it->second.last = at;
        }
      ++at;
    };
    if (run.transfer) touch(*run.transfer);
    if (run.segment)
      for (Op const& op : run.segment->ops)
        if (run.runs(op)) touch(op);
  }
  std::vector<Held> all;
  for (auto& [key, h] : spans) all.push_back(h);
  return all;
}

void expect_no_overlap(Experiment const& e, std::int64_t rank) {
  SCOPED_TRACE(command_flags(e));
  StepProgram const p = lower(e, rank);
  Replay const replay(p);
  MemoryPlan const plan = plan_memory(p, replay);
  auto held = held_ranges(p, replay, plan);
  std::ranges::sort(held, {}, &Held::begin);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_LE(held[i].end, plan.arena_bytes);
    for (std::size_t j = i + 1; j < held.size() && held[j].begin < held[i].end; ++j) {
      bool const together =
          held[i].lasts || held[j].lasts || (held[i].first <= held[j].last && held[j].first <= held[i].last);
      ASSERT_FALSE(together && held[i].name != held[j].name) << held[i].name << " and " << held[j].name;
    }
  }
}

TEST(MemoryPlan, TensorsAliveTogetherNeverOverlap) {
  for (ScheduleKind const schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    for (Recompute const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Cut c = cut(1, 2, 2, schedule);
      c.recompute = recompute;
      c.sequence_parallel = recompute != Recompute::full;
      Experiment const e = small_experiment(small_llama(4), c);
      for (auto const rank : representative_ranks(e)) expect_no_overlap(e, rank);
    }
  expect_no_overlap(small_experiment(small_gpt(2), cut(2, 1, 1)), 1);
  Cut interleaved = cut(1, 1, 2, ScheduleKind::interleaved);
  interleaved.vpp = 2;
  expect_no_overlap(small_experiment(small_gpt(4), interleaved), 1);
}

/// Bytes of activations and temporaries held at each op, added up one by one; the most of them.
std::int64_t most_held(StepProgram const& p, Replay const& replay, MemoryPlan const& plan) {
  std::map<std::int64_t, std::int64_t> change;
  for (Held const& h : held_ranges(p, replay, plan)) {
    if (h.lasts) continue;
    change[h.first] += h.end - h.begin;
    change[h.last + 1] -= h.end - h.begin;
  }
  std::int64_t held = 0, most = 0;
  for (auto const& [op, bytes] : change) most = std::max(most, held += bytes);
  return most;
}

TEST(MemoryPlan, ThePeakIsTheMostThatIsHeldAtAnOp) {
  for (ScheduleKind const schedule : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1})
    for (Recompute const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      Cut c = cut(1, 2, 2, schedule);
      c.recompute = recompute;
      Experiment const e = small_experiment(small_llama(4), c);
      SCOPED_TRACE(command_flags(e));
      for (auto const rank : representative_ranks(e)) {
        StepProgram const p = lower(e, rank);
        Replay const replay(p);
        MemoryPlan const plan = plan_memory(p, replay);
        std::int64_t const most = most_held(p, replay, plan);
        // An op that only some microbatches run is taken to run in each, and split passes repeat what is computed again
        // into memory of their own.
        EXPECT_GE(plan.activation_peak_bytes, most);
        EXPECT_LE(plan.activation_peak_bytes, schedule == ScheduleKind::zb_h1 ? most + most / 15 : most);
      }
    }
}

// What a communication reads or writes stays taken until a compute op has waited for it.
TEST(MemoryPlan, ATemporaryInFlightIsNotOverwritten) {
  Cut c = cut(2, 2, 1);
  c.sequence_parallel = true;
  StepProgram const p = lower(small_experiment(small_llama(2), c), 0);
  MemoryPlan const plan = plan_memory(p, Replay(p));
  int checked = 0;
  for (Segment const& segment : p.segments)
    for (std::size_t i = 0; i < segment.ops.size(); ++i) {
      Op const& call = segment.ops[i];
      if (call.stream == StreamId::compute) continue;
      for (auto const* refs : {&call.inputs, &call.outputs})
        for (TensorRef const& ref : *refs) {
          if (!ref.valid()) continue;
          TensorId const mine = p.storage_of(ref.id);
          auto const& place = plan.places[mine];
          if (place.residence != Residence::temporary) continue;
          for (std::size_t j = i + 1; j < segment.ops.size(); ++j) {
            Op const& op = segment.ops[j];
            for (TensorRef const& out : op.outputs) {
              TensorId const other = out.valid() ? p.storage_of(out.id) : mine;
              auto const& theirs = plan.places[other];
              if (other == mine || theirs.residence != Residence::temporary) continue;
              EXPECT_TRUE(theirs.offset >= place.offset + p.tensors[mine].bytes() ||
                          place.offset >= theirs.offset + p.tensors[other].bytes())
                  << p.tensors[other].name << " over " << p.tensors[mine].name;
              ++checked;
            }
            if (op.stream == StreamId::compute && p.waits_for(op, call)) break;
          }
        }
    }
  EXPECT_GT(checked, 20);
}

MemoryPlan plan_of(Experiment const& e, std::int64_t rank = 0) {
  StepProgram const p = lower(e, rank);
  return plan_memory(p, Replay(p));
}

TEST(MemoryPlan, RolesOfTheStates) {
  Experiment e = small_experiment(small_llama(2), cut(1, 1, 1));
  e.precision = Dtype::bf16;
  StepProgram const p = lower(e, 0);
  MemoryPlan const plan = plan_memory(p, Replay(p));
  std::int64_t elements = 0;
  for (Bucket const& b : p.buckets) elements += b.elements;
  EXPECT_EQ(plan.parameter_bytes, 2 * elements);
  EXPECT_EQ(plan.gradient_bytes, 4 * elements);
  EXPECT_EQ(plan.optimizer_bytes, 12 * elements) << "18 bytes a parameter with fp32 gradients";
  EXPECT_GE(plan.arena_bytes, plan.parameter_bytes + plan.gradient_bytes + plan.optimizer_bytes + plan.buffer_bytes);
}

TEST(MemoryPlan, AShardedOptimizerKeepsItsShare) {
  Cut c = cut(4, 1, 1);
  std::int64_t const whole = plan_of(small_experiment(small_llama(2), c)).optimizer_bytes;
  c.zero_stage = 1;
  std::int64_t const shard = plan_of(small_experiment(small_llama(2), c)).optimizer_bytes;
  EXPECT_GE(shard, whole / 4);
  EXPECT_LT(shard, whole / 4 + 4096);
}

TEST(MemoryPlan, MicrobatchesInFlightFollowTheSchedule) {
  Experiment const one = small_experiment(small_llama(4), cut(1, 1, 4)),
                   gpipe = small_experiment(small_llama(4), cut(1, 1, 4, ScheduleKind::gpipe));
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    MemoryPlan const a = plan_of(one, stage), b = plan_of(gpipe, stage);
    EXPECT_EQ(a.microbatches_in_flight[0], 4 - stage);
    EXPECT_EQ(b.microbatches_in_flight[0], 8);
    EXPECT_LT(a.activation_peak_bytes, b.activation_peak_bytes);
    if (stage == 2) {
      EXPECT_LT(a.activation_peak_bytes, plan_of(one, 1).activation_peak_bytes);
    }
  }
}

TEST(MemoryPlan, RecomputationLowersThePeak) {
  Cut c = cut(1, 1, 2, ScheduleKind::gpipe);
  std::int64_t const none = plan_of(small_experiment(small_gpt(8), c)).activation_peak_bytes;
  c.recompute = Recompute::selective;
  std::int64_t const selective = plan_of(small_experiment(small_gpt(8), c)).activation_peak_bytes;
  c.recompute = Recompute::full;
  std::int64_t const full = plan_of(small_experiment(small_gpt(8), c)).activation_peak_bytes;
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective);
}

/// Bytes a layer keeps for its backward pass: what one more layer adds to a long forward pass.
double kept_per_layer(Cut const& c) {
  auto const bytes = [&](std::int64_t layers) {
    Experiment e = small_experiment(small_gpt(layers), c);
    e.model.ffn_hidden = 4 * e.model.hidden;
    e.scope = Scope::layer;
    e.precision = Dtype::bf16;
    return static_cast<double>(plan_of(e).activation_peak_bytes);
  };
  return bytes(8) - bytes(7);
}

TEST(MemoryPlan, ALayerKeepsWhatTheClosedFormSays) {
  // Korthikanti et al. count s b h (34 + 5 a s/h). Ours has no dropout (its two masks of 1 byte and, on the attention
  // scores, everything: 5 a s/h), keeps no input of a dropout, and adds fp32 statistics. In units of s b h bytes, bf16:
  // both norms' inputs (residual sums) 4, both norms' outputs 4, packed qkv 6, attention output 2, MLP up 8, its
  // activation 8: 32; the masks of 1 + 1 make the published 34.
  double const unit = 16 * 64;
  double const statistics = 2 * 16 * 2 * 4;  // mean and 1/std of both norms
  double const lse = 8 * 16 * 4;             // log-sum-exp of 8 heads
  EXPECT_EQ(kept_per_layer(cut(1, 1, 1)), 32 * unit + statistics + lse);
  EXPECT_EQ(gpt_layer_activation_bytes(16, 1, 64, 8, 1, false) - 5 * 8 * 16 * 16, 34 * unit);
  // Cut by tensor parallelism: qkv, attention, and the MLP's wide tensors are 24 of the 32.
  for (std::int64_t const tp : {2, 4, 8}) {
    double const t = static_cast<double>(tp);
    EXPECT_EQ(kept_per_layer(cut(1, tp, 1)), (8 + 24 / t) * unit + statistics + lse / t);
    Cut c = cut(1, tp, 1);
    c.sequence_parallel = true;
    EXPECT_EQ(kept_per_layer(c), 32 / t * unit + statistics / t + lse / t);
  }
}

/// The same with parts computed again, of a model.
double kept_with(ModelConfig model, std::string const& modules) {
  auto const bytes = [&](std::int64_t layers) {
    Cut c = cut(1, 1, 1);
    c.recompute_modules = parse_recompute_modules("recompute-modules", modules);
    model.layers = layers;
    Experiment e = small_experiment(model, c);
    e.scope = Scope::layer;
    e.precision = Dtype::bf16;
    return static_cast<double>(plan_of(e).activation_peak_bytes);
  };
  return bytes(8) - bytes(7);
}

// By hand, from the parts of the closed form above, in units of s b h bytes: what is computed again is not kept.
TEST(MemoryPlan, APartThatIsComputedAgainIsNotKept) {
  ModelConfig model = small_gpt(8);
  model.ffn_hidden = 4 * model.hidden;
  double const unit = 16 * 64, statistics = 2 * 16 * 2 * 4, lse = 8 * 16 * 4;
  EXPECT_EQ(kept_with(model, "none"), 32 * unit + statistics + lse);
  EXPECT_EQ(kept_with(model, "core_attn"), (32 - 2) * unit + statistics) << "attention's output and its log-sum-exp";
  EXPECT_EQ(kept_with(model, "layernorm"), (32 - 4) * unit + lse) << "outputs of both norms and their statistics";
  EXPECT_EQ(kept_with(model, "activation"), (32 - 8) * unit + statistics + lse) << "the MLP's wide activation";
  EXPECT_EQ(kept_with(model, "mlp"), (32 - 16) * unit + statistics + lse)
      << "its wide tensors; the norm's output stays";
  EXPECT_EQ(kept_with(model, "core_attn+layernorm+activation"), (32 - 14) * unit);
}

// DeepSeek-V3's choice (its report, section 3.2.3): the norms' outputs and what the up projections make. By hand, for
// each token of latent attention with 8 heads (12 + 4 a head, values 8; ranks 24 and 16), hidden 64, ffn 128, gated:
// residual sums 2*64, q_down 24, kv_down 16 + 4, attention output 64, log-sum-exp 8 in fp32, MLP up 256, activation 128
// stay; norms 2*64 + 24, the latent 16 + 4, queries and keys 2*128, keys and values as projected 8*20, and the
// statistics of four norms in fp32 go.
TEST(MemoryPlan, NormsAndUpProjectionsOfLatentAttention) {
  double const tokens = 16;
  double const stays = 2 * (128 + 24 + 20 + 64 + 256 + 128) + 4 * 8;
  double const norms = 2 * (128 + 24 + 20) + 4 * 4, up = 2 * (256 + 160);
  EXPECT_EQ(kept_with(small_latent(8), "none"), tokens * (stays + norms + up));
  EXPECT_EQ(kept_with(small_latent(8), "mla_up_proj"), tokens * (stays + norms));
  EXPECT_EQ(kept_with(small_latent(8), "layernorm+mla_up_proj"), tokens * stays);
  EXPECT_EQ(kept_with(small_latent(8), "layernorm+mla_up_proj+activation"), tokens * (stays - 2 * 128));
}

// Mixtral's small kin: 2 of 8 experts of 48, gated; each token has 2 rows. By hand: rows as dispatched 2*64, up 2*96,
// activation 2*48, what returns 2*64; the router's logits 8, two weights in fp32 and two indices and two places in
// int32.
TEST(MemoryPlan, ExpertsThatAreComputedAgain) {
  double const tokens = 16, rows = 2 * (128 + 192 + 96 + 128), choice = 2 * 8 + 4 * 2 * 3;
  double const none = kept_with(small_mixtral(8), "none");
  EXPECT_EQ(none - kept_with(small_mixtral(8), "moe_act"), tokens * 2 * 96);
  EXPECT_NEAR(none - kept_with(small_mixtral(8), "moe"), tokens * (rows + choice), 64) << "and the experts' counts";
}

// With its logits in pieces a step holds one piece of them at a time.
TEST(MemoryPlan, LossChunksHoldOnePieceOfTheLogits) {
  ModelConfig model = small_llama(1);
  model.vocab = 8192;
  Experiment e = small_experiment(model, cut(1, 1, 1));
  double const whole = static_cast<double>(plan_of(e).activation_peak_bytes);
  e.loss_chunks = 4;
  double const logits = 4.0 * 16 * 8192;
  EXPECT_NEAR(whole - static_cast<double>(plan_of(e).activation_peak_bytes), logits * 3 / 4, 0.02 * logits);
}

// Of ZeRO 3's units two are whole at a time, this one and the one that is gathered ahead; kept ones all are.
TEST(MemoryPlan, WholeUnitsTakeOneAnothersPlace) {
  for (ScheduleKind const schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1, ScheduleKind::dualpipe})
    for (ZeroKeep const keep : {ZeroKeep::none, ZeroKeep::weights}) {
      Cut c = cut(2, 1, 2, schedule);
      c.zero_stage = 3;
      c.zero_keep = keep;
      Experiment const e = small_experiment(small_llama(16), c);
      StepProgram const p = lower(e, 0);
      MemoryPlan const plan = plan_memory(p, Replay(p));
      std::set<std::int64_t> places;
      for (Bucket const& b : p.buckets) {
        auto const& place = plan.places[b.weights];
        EXPECT_EQ(place.instances, 1) << "the same weights for every microbatch";
        places.insert(place.offset);
      }
      if (keep == ZeroKeep::none)
        EXPECT_LE(places.size(), 4u) << "of two buckets each where the parts of backward have buckets of their own";
      else
        EXPECT_EQ(places.size(), p.buckets.size());
    }
}

// What a unit's backward makes stays until it is cut and added, which is over before the next but one is computed: two
// units' gradients and one unit's cut are there at once, however many units there are.
TEST(MemoryPlan, GradientsOfTwoUnitsAreWholeAtATime) {
  for (std::int64_t const layers : {4, 12}) {
    Cut c = cut(2, 1, 1);
    c.zero_stage = 3;
    Experiment e = small_experiment(small_llama(layers), c);
    e.scope = Scope::layer;
    StepProgram const p = lower(e, 0);
    MemoryPlan const plan = plan_memory(p, Replay(p));
    std::set<std::int64_t> whole, cuts;
    for (Bucket const& b : p.buckets) {
      whole.insert(plan.places[b.gradients].offset);
      cuts.insert(plan.places[b.reduced].offset);
    }
    EXPECT_EQ(p.buckets.size(), static_cast<std::size_t>(layers));
    EXPECT_EQ(whole.size(), 2u);
    EXPECT_EQ(cuts.size(), 1u);
  }
}

TEST(MemoryPlan, LargestTensorsComeFirst) {
  StepProgram const p = lower(small_experiment(small_gpt(2), cut(1, 1, 1)), 0);
  MemoryPlan const plan = plan_memory(p, Replay(p));
  auto const largest = largest_tensors(p, plan, 5);
  ASSERT_EQ(largest.size(), 5u);
  for (std::size_t i = 1; i < largest.size(); ++i) EXPECT_GE(largest[i - 1].second, largest[i].second);
}

}  // namespace
}  // namespace shardbench::test
