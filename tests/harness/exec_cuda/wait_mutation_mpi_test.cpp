// Leaves out each event wait of a step in turn: the order checker has to notice, or the wait is not needed.
#include "kernels/core/stream_host.hpp"
#include "tests/harness/exec/moe_models.hpp"
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

/// The largest of the ranks' values.
int largest(int value) {
  InlineStream stream;
  float most = static_cast<float>(value);
  world().all_reduce({&most, 1, Dtype::f32}, ReduceOp::max, stream);
  return static_cast<int>(most);
}

/// Steps of a program on every rank, of which the last one can miss a wait.
class WaitMutation {
 public:
  explicit WaitMutation(Experiment const& e) : runner_(lower(e, world().rank()), job_.device(), *job_.nccl) {
    runner_.initialize(1);
    step();
    runner_.synchronize();
    static_cast<void>(emulation::take_races());
  }

  /// Two steps with no host wait between them, so that every wait of the second orders it after the first; returns how
  /// many waits each of the two has on this rank.
  std::pair<int, int> count() {
    int const start = emulation::waits_issued();
    step();
    int const middle = emulation::waits_issued();
    step();
    runner_.synchronize();
    return {middle - start, emulation::waits_issued() - middle};
  }

  /// Every wait of the second step that can be left out unnoticed on this rank. All ranks leave out theirs alike.
  std::vector<int> unnoticed() {
    auto const waits = count();
    EXPECT_EQ(joined(emulation::take_races()), "");
    std::vector<int> missed;
    int const most = largest(waits.second);
    EXPECT_GT(most, 0);
    for (int n = 1; n <= most; ++n) {
      bool const mine = n <= waits.second;
      if (mine) emulation::drop_wait(waits.first + n);
      EXPECT_EQ(count(), waits);
      emulation::drop_wait(0);
      if (mine == emulation::take_races().empty()) missed.push_back(n);
    }
    return missed;
  }

 private:
  void step() {
    runner_.run_gradients();
    runner_.run_optimizer(++step_);
  }

  EmulatedJob job_;
  Runner runner_;
  std::int64_t step_ = 0;
};

void expect_every_wait_needed(Experiment const& e) { EXPECT_EQ(WaitMutation(e).unnoticed(), std::vector<int>{}); }

/// A collective into memory that other tensors had before waits for all compute so far, which is more than it has to
/// where compute used none of that memory lately: under sequence parallelism the head's re-gather, once a microbatch.
void expect_all_but_head_regather_needed(Experiment const& e) {
  EXPECT_LE(static_cast<std::int64_t>(WaitMutation(e).unnoticed().size()), e.global_batch / e.cut.dp / e.micro_batch);
}

Cut with(Cut p, int zero_stage, bool sequence_parallel, Recompute recompute = Recompute::none) {
  p.zero_stage = zero_stage;
  p.sequence_parallel = sequence_parallel;
  p.recompute = recompute;
  return p;
}

std::int64_t ranks() { return world().size(); }

TEST(WaitMutation, DataParallel) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  expect_every_wait_needed(emulated_experiment(small_gpt(1), cut(ranks(), 1, 1)));
  for (int const stage : {1, 2, 3})
    expect_every_wait_needed(emulated_experiment(small_llama(2), with(cut(ranks(), 1, 1), stage, false), ranks()));
  // What is cut of one microbatch is added beside the next.
  for (int const stage : {2, 3})
    expect_every_wait_needed(emulated_experiment(small_llama(1), with(cut(ranks(), 1, 1), stage, false), 2 * ranks()));
}

TEST(WaitMutation, TensorParallel) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  expect_every_wait_needed(emulated_experiment(small_gpt(1), cut(1, ranks(), 1), 2));
  expect_all_but_head_regather_needed(
      emulated_experiment(small_llama(1), with(cut(1, ranks(), 1), 0, true, Recompute::full), 2));
}

TEST(WaitMutation, PipelineParallel) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  expect_every_wait_needed(emulated_experiment(small_gpt(ranks()), cut(1, 1, ranks()), 3));
  expect_every_wait_needed(emulated_experiment(small_llama(ranks()), cut(1, 1, ranks(), ScheduleKind::zb_h1), 3));
  expect_every_wait_needed(emulated_experiment(small_llama(2 * ranks()), cut(1, 1, ranks(), ScheduleKind::dualpipe)));
}

TEST(WaitMutation, ContextParallel) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  for (CpMethod const method : {CpMethod::ring, CpMethod::all_gather, CpMethod::ulysses}) {
    SCOPED_TRACE(static_cast<int>(method));
    Cut p;
    p.cp = ranks();
    p.cp_method = method;
    expect_every_wait_needed(emulated_experiment(small_llama(1), p, 2));
  }
}

TEST(WaitMutation, Experts) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  Experiment e = emulated_experiment(small_mixtral(1), expert_cut(ranks(), 1, 1, ranks()), 2);
  e.routing = RoutingKind::learned;
  expect_every_wait_needed(e);
}

TEST(WaitMutation, TensorOverlap) {
  if (ranks() > 2) GTEST_SKIP() << "2 ranks say it all";
  Cut p = cut(1, ranks(), 1);
  p.tp_overlap = TpOverlap::chunked;
  expect_every_wait_needed(emulated_experiment(small_llama(1), p, 2));
}

TEST(WaitMutation, TwoAxes) {
  if (ranks() < 4) GTEST_SKIP() << "4 ranks needed";
  expect_all_but_head_regather_needed(emulated_experiment(small_llama(1), with(cut(2, 2, 1), 1, true), 4));
  expect_every_wait_needed(emulated_experiment(small_gpt(2), cut(1, 2, 2), 2));
  expect_every_wait_needed(emulated_experiment(small_gpt(2), cut(2, 1, 2), 4));
}

}  // namespace
}  // namespace shardbench::test
