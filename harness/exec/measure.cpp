#include "harness/exec/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "harness/exec/agreement.hpp"
#include "harness/exec/parameter_parts.hpp"

namespace shardbench {

namespace {

constexpr int instrumented_iterations = 3;

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Steps of a runner with their numbers for the optimizer.
class Stepper {
 public:
  Stepper(Runner& runner, Communicator& world) : runner_(runner), world_(world) {}

  void run() {
    run_and_look([] {});
  }
  /// A step, with a look at its gradients before the optimizer takes them.
  template <class Look>
  void run_and_look(Look look) {
    runner_.run_gradients();
    look();
    runner_.run_optimizer(++step_);
    runner_.synchronize();
  }
  /// Timed steps are launches of one captured step from here on.
  void capture() {
    run();  // what is made at first use cannot be made in a capture
    runner_.capture_graph(++step_);
    captured_ = true;
    launch();
  }
  /// Milliseconds on this rank from the common start to the end of its work.
  double timed() {
    world_.barrier();
    double const start = now_ms();
    captured_ ? launch() : run();
    return now_ms() - start;
  }
  struct Marked {
    double start = 0, end = 0;
    std::vector<Span> spans;
  };
  Marked marked(Timeline& timeline) {
    timeline.clear();
    runner_.set_timeline(&timeline);
    world_.barrier();
    Marked m;
    m.start = timeline.now_ms();
    run();
    m.end = timeline.now_ms();
    m.spans = timeline.resolve();
    runner_.set_timeline(nullptr);
    return m;
  }

 private:
  void launch() {
    runner_.launch_graph();
    runner_.synchronize();
  }

  Runner& runner_;
  Communicator& world_;
  std::int64_t step_ = 0;
  bool captured_ = false;
};

std::size_t spans_per_step(Runner const& runner) {
  std::size_t ops = 0;
  for (Run const& run : runner.stage().replay().runs()) ops += run.segment ? run.segment->ops.size() : 2;
  return ops + 16;
}

/// Adds up what instrumented steps tell.
class Instrumented {
 public:
  Instrumented(Agreement& agree, StepProgram const& program, Measurement& out)
      : agree_(agree), program_(program), out_(out) {}

  void add(Stepper::Marked marked) {
    std::vector<Span> work, waits;
    for (Span span : marked.spans) {
      bool const wait = span.label & Runner::wait_label;
      span.label &= ~Runner::wait_label;
      if (!wait) times_[span.label].push_back(span.end_ms - span.start_ms);
      (wait ? waits : work).push_back(span);
    }
    Breakdown const b = break_down(work, waits, marked.start, marked.end);
    out_.max_identity_error_ms =
        std::max(out_.max_identity_error_ms, std::abs(b.step_ms - b.compute_ms - b.exposed_comm_ms - b.idle_ms));
    out_.breakdown.add(b, 1.0 / instrumented_iterations);
    out_.optimizer_ms += optimizer_ms(work) / instrumented_iterations;
    out_.spans = std::move(work);
    for (Span& span : out_.spans) span.start_ms -= marked.start, span.end_ms -= marked.start;
  }

  void finish() {
    out_.breakdown.each([&](double& part) { part = agree_.mean(part); });
    out_.optimizer_ms = agree_.mean(out_.optimizer_ms);
    out_.max_identity_error_ms = agree_.maximum(out_.max_identity_error_ms);
    for (auto& [label, times] : times_) {
      double total = 0;
      for (double const t : times) total += t;
      std::ranges::sort(times);
      out_.labels.push_back({label, static_cast<std::int64_t>(times.size()) / instrumented_iterations,
                             1e3 * quantile(times, 0.5), total / instrumented_iterations});
    }
  }

 private:
  /// From the first to the last mark of the optimizer's ops.
  double optimizer_ms(std::vector<Span> const& work) const {
    double first = HUGE_VAL, last = -HUGE_VAL;
    for (Span const& span : work) {
      if (span.label >= program_.labels.size() || program_.labels[span.label].phase != "optimizer") continue;
      first = std::min(first, span.start_ms);
      last = std::max(last, span.end_ms);
    }
    return last > first ? last - first : 0;
  }

  Agreement& agree_;
  StepProgram const& program_;
  Measurement& out_;
  std::map<std::uint32_t, std::vector<double>> times_;
};

/// The step from the initial weights, whose loss and gradients say what is computed; it warms up too.
void run_first_step(Stepper& stepper, Runner& runner, Experiment const& e, Agreement& agree, Communicator& world,
                    Measurement& out) {
  StepProgram const& p = runner.program();
  stepper.run_and_look([&] {
    if (e.phase != PhaseKind::train) return;
    out.grad_norm = gradient_norm(runner, world);
    // Every tensor-parallel rank of the last stage has the whole loss of its samples; one of them speaks.
    double const mine = p.coordinate[Axis::tp] == 0 ? local_loss(runner) : 0;
    double const loss = agree.sum(mine);
    if (agree.maximum(p.loss == no_tensor ? 0 : 1) > 0) out.loss = loss;
  });
}

}  // namespace

Measurement measure(Runner& runner, Experiment const& e, Device& device, Communicator& world,
                    std::optional<LoweredStage> const& unsharded) {
  Measurement out;
  Agreement agree(world);
  bool const trains = e.phase == PhaseKind::train;
  if (e.check)
    out.parity = trains ? check_parity(runner, e, device, world, 2, unsharded)
                        : check_inference(runner, e, device, world, unsharded);
  runner.initialize(e.seed);
  Stepper stepper(runner, world);
  run_first_step(stepper, runner, e, agree, world, out);
  for (std::int64_t i = 1; i < e.warmup; ++i) stepper.run();
  if (e.cuda_graph) stepper.capture();
  auto const before = runner.traffic();
  std::vector<double> steps;
  SampleStop const stop{
      .target_ci_pct = e.target_ci_pct, .max_samples = e.max_iterations, .max_total = 1e3 * e.max_seconds};
  // Every rank sees the same maxima, so all stop at the same iteration.
  do steps.push_back(agree.maximum(stepper.timed()));
  while (!stop.enough(steps));
  out.step_ms = summarize(steps);
  out.state = device.state();
  auto const after = runner.traffic();
  for (Axis const a : enum_values<Axis>())
    out.payload_bytes[a] = agree.mean(static_cast<double>(after[a].payload_bytes - before[a].payload_bytes) /
                                      static_cast<double>(steps.size()));
  std::size_t const room = spans_per_step(runner);
  auto const timeline = device.info().backend == "cpu" ? make_host_timeline(room) : make_device_timeline(device, room);
  Instrumented instrumented(agree, runner.program(), out);
  device.profile_start();
  for (int i = 0; i < instrumented_iterations; ++i) instrumented.add(stepper.marked(*timeline));
  device.profile_stop();
  instrumented.finish();
  out.memory_bytes = agree.maximum(static_cast<double>(runner.stage().memory().arena_bytes));
  return out;
}

}  // namespace shardbench
