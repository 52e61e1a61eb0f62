// Sharded inference against the unsharded one: logits at each position, and the tokens chosen from them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/exec/agreement.hpp"
#include "harness/exec/parity.hpp"
#include "harness/program/lower.hpp"

namespace shardbench {

namespace {

/// Positions that a check decodes one after the other; each reads what the earlier ones left in the cache.
constexpr std::int64_t checked_positions = 4;

class LogitComparison {
 public:
  LogitComparison(Runner& sharded, Runner* whole, StepProgram const& whole_program, Communicator& world,
                  ParityReport& report)
      : sharded_(sharded),
        whole_(whole),
        whole_program_(whole_program),
        world_(world),
        report_(report),
        agree_(world),
        device_(make_host_device()),
        stream_(device_->make_stream(StreamKind::compute)) {}

  void compare(std::int64_t position) {
    StepProgram const& p = sharded_.program();
    bool const has_logits = p.logits != no_tensor && std::ranges::any_of(p.chunks, &Chunk::has_head);
    std::int64_t const first = p.coordinate[static_cast<std::size_t>(Axis::dp)] * p.microbatches;
    for (std::int32_t m = 0; m < static_cast<std::int32_t>(whole_program_.microbatches); ++m) {
      std::vector<float> const expected = reference_logits(m);
      bool const mine = m >= first && m < first + p.microbatches;
      if (has_logits && mine) compare_microbatch(expected, m - static_cast<std::int32_t>(first), position);
    }
  }

  /// Every rank learns the worst error and where it was.
  void agree() {
    double const worst = report_.max_rel_error;
    report_.max_rel_error = report_.loss_error = agree_.maximum(worst);
    report_.worst = agree_.first_text(worst == report_.max_rel_error ? report_.worst : "");
    report_.problem = agree_.first_text(report_.problem);
  }

 private:
  std::vector<float> reference_logits(std::int32_t microbatch) {
    std::vector<float> values(static_cast<std::size_t>(whole_program_.micro_batch * whole_program_.padded_vocab));
    if (whole_) values = whole_->read(whole_program_.logits, microbatch);
    world_.broadcast({values.data(), values.size(), Dtype::f32}, 0, *stream_);
    return values;
  }

  void compare_microbatch(std::vector<float> const& expected, std::int32_t microbatch, std::int64_t position) {
    StepProgram const& p = sharded_.program();
    std::vector<float> const actual = sharded_.read(p.logits, microbatch);
    std::vector<std::int32_t> const tokens = sharded_.read_tokens(p.next_ids, microbatch);
    std::int64_t const columns = static_cast<std::int64_t>(actual.size()) / p.micro_batch;
    for (std::int64_t b = 0; b < p.micro_batch; ++b) {
      float const* const row = expected.data() + b * whole_program_.padded_vocab;
      double squares = 0;
      for (std::int64_t c = 0; c < p.vocab; ++c) squares += static_cast<double>(row[c]) * static_cast<double>(row[c]);
      double const rms = std::sqrt(squares / static_cast<double>(p.vocab));
      if (!(rms > 0))
        report_.problem = fmt::format("the unsharded logits at position {} are empty or not finite", position);
      for (std::int64_t c = 0; c < columns && p.first_logit + c < p.vocab; ++c)
        record(actual[static_cast<std::size_t>(b * columns + c)], row[p.first_logit + c], rms, "logits", position);
      // Rounding may swap near equal tokens, so a chosen one is judged by its logit.
      auto const token = std::clamp<std::int64_t>(tokens[static_cast<std::size_t>(b)], 0, p.vocab - 1);
      record(row[token], *std::max_element(row, row + p.vocab), rms, "the token chosen", position);
    }
  }

  void record(float a, float b, double rms, char const* what, std::int64_t position) {
    double const difference =
        std::abs(static_cast<double>(a) - static_cast<double>(b)) / (std::abs(static_cast<double>(b)) + rms);
    double const error = std::isfinite(difference) ? difference : HUGE_VAL;
    if (error <= report_.max_rel_error) return;
    report_.max_rel_error = error;
    report_.worst = fmt::format("{} at position {}", what, position);
  }

  Runner& sharded_;
  Runner* whole_;
  StepProgram const& whole_program_;
  Communicator& world_;
  ParityReport& report_;
  Agreement agree_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

void run_at(Runner& runner, std::int64_t position, std::uint64_t seed) {
  runner.set_position(position);
  runner.set_prompt(seed);
  runner.run_gradients();
  runner.synchronize();
}

}  // namespace

ParityReport check_inference(Runner& sharded, Experiment const& experiment, Device& device, Communicator& world) {
  ParityReport report;
  report.tolerance = parity_tolerance(experiment.precision);
  StepProgram const whole_program = lower(unsharded(experiment), 0);
  auto self = make_self_communicator();
  std::optional<Runner> whole;
  if (world.rank() == 0) whole.emplace(whole_program, device, *self);
  Runner* const reference = whole ? &*whole : nullptr;
  LogitComparison comparison(sharded, reference, whole_program, world, report);
  sharded.initialize(experiment.seed);
  if (reference) reference->initialize(experiment.seed);
  std::int64_t const last = std::min(whole_program.context, checked_positions - 1);
  for (std::int64_t position = 0; position <= last; ++position) {
    run_at(sharded, position, experiment.seed);
    if (reference) run_at(*reference, position, experiment.seed);
    comparison.compare(position);
  }
  comparison.agree();
  return report;
}

}  // namespace shardbench
