// Capturing a step: what surrounds it must be right although the emulated GPU has no graphs. Its captures here run what
// they are given at once, and the order checker judges forks, joins and what comes before and after.
#include "tests/harness/exec_cuda/emulated_job.hpp"

namespace shardbench::test {
namespace {

/// A device whose captures run eagerly, once; all else is the emulated GPU's.
class EagerGraphs final : public Device {
 public:
  explicit EagerGraphs(Device& device) : device_(device) {}
  DeviceInfo info() const override { return device_.info(); }
  KernelSet const& kernels() const override { return device_.kernels(); }
  std::unique_ptr<Stream> make_stream(StreamKind kind) override { return device_.make_stream(kind); }
  std::unique_ptr<Event> make_event(bool timed) override { return device_.make_event(timed); }
  void* allocate(std::size_t bytes) override {
    void* const memory = device_.allocate(bytes);
    if (bytes > arena_bytes_) arena_ = memory, arena_bytes_ = bytes;
    return memory;
  }
  void deallocate(void* pointer) noexcept override { device_.deallocate(pointer); }
  void copy_from_host(void* to, void const* from, std::size_t bytes, Stream& stream) override {
    device_.copy_from_host(to, from, bytes, stream);
  }
  void copy_to_host(void* to, void const* from, std::size_t bytes, Stream& stream) override {
    device_.copy_to_host(to, from, bytes, stream);
  }
  void copy(void* to, void const* from, std::size_t bytes, Stream& stream) override {
    device_.copy(to, from, bytes, stream);
  }
  void fill_bytes(void* to, int value, std::size_t bytes, Stream& stream) override {
    device_.fill_bytes(to, value, bytes, stream);
  }
  void synchronize() override { device_.synchronize(); }
  std::string graph_problem() const override { return {}; }
  std::unique_ptr<Graph> capture(Stream& origin, std::function<void()> const& enqueue) override {
    struct Nothing final : Graph {
      void launch(Stream&) override {}
    };
    enqueue();
    // What another stream wrote and `origin` was not made to wait for shows as a race with this read of everything.
    void* const copy = device_.allocate(arena_bytes_);
    device_.copy(copy, arena_, arena_bytes_, origin);
    device_.deallocate(copy);
    return std::make_unique<Nothing>();
  }

 private:
  Device& device_;
  void* arena_ = nullptr;  ///< the largest allocation
  std::size_t arena_bytes_ = 0;
};

void expect_ordered_capture(Cut const& p) {
  EmulatedJob const job;
  EagerGraphs device(job.device());
  Experiment const e = emulated_experiment(small_llama(std::max<std::int64_t>(p.pp, 2)), p);
  Runner runner(lower(e, world().rank()), device, *job.nccl);
  runner.initialize(1);
  runner.run_gradients();
  runner.run_optimizer(1);
  double const loss = local_loss(runner);
  static_cast<void>(emulation::take_races());
  runner.capture_graph(2);
  runner.launch_graph();
  runner.synchronize();
  EXPECT_EQ(joined(emulation::take_races()), "");
  runner.run_gradients();
  runner.run_optimizer(3);
  runner.synchronize();
  EXPECT_EQ(joined(emulation::take_races()), "");
  if (loss != 0) {
    EXPECT_NE(local_loss(runner), loss) << "the captured step updated no weight";
  }
}

TEST(CapturedStep, ForksAndJoinsEveryStream) {
  expect_ordered_capture(cut(world().size(), 1, 1));
  expect_ordered_capture(cut(1, world().size(), 1));
  expect_ordered_capture(cut(1, 1, world().size()));
}

TEST(CapturedStep, TheEmulatedGpuRefusesInWords) {
  EmulatedJob const job;
  Runner runner(lower(emulated_experiment(small_llama(2), cut(world().size(), 1, 1)), world().rank()), job.device(),
                *job.nccl);
  EXPECT_EQ(runner.graph_problem(), "the emulated GPU has no CUDA graphs");
  EXPECT_THROW(runner.capture_graph(1), Error);
}

TEST(CapturedStep, VerificationNeedsTheHost) {
  EmulatedJob const job;
  EagerGraphs device(job.device());
  Runner const runner(lower(emulated_experiment(small_llama(2), cut(world().size(), 1, 1)), world().rank()), device,
                      *job.nccl, {.verify_collectives = true, .optimizer = {}});
  EXPECT_NE(runner.graph_problem().find("--verify-collectives"), std::string::npos);
}

}  // namespace
}  // namespace shardbench::test
