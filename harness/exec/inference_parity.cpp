// Sharded inference against the unsharded one: logits at each position, and the tokens chosen from them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/exec/parity_record.hpp"

namespace shardbench {

namespace {

/// Positions that a check decodes one after the other; each reads what the earlier ones left in the cache.
constexpr std::int64_t checked_positions = 4;

class LogitComparison {
 public:
  LogitComparison(Runner& sharded, ParityReference& reference, Communicator& world, ParityReport& report)
      : sharded_(sharded),
        whole_program_(reference.stage.program()),
        report_(report),
        record_(reference, world, report) {}

  void compare(std::int64_t position) {
    StepProgram const& p = sharded_.program();
    bool const has_logits = p.inference.logits != no_tensor && std::ranges::any_of(p.chunks, &Chunk::has_head);
    std::int64_t const first = p.coordinate[Axis::dp] * p.microbatches;
    for (std::int32_t m = 0; m < whole_program_.microbatches; ++m) {
      std::vector<float> const expected = record_.broadcast(
          whole_program_.inference.logits, whole_program_.micro_batch * whole_program_.padded_vocab, m);
      bool const mine = m >= first && m < first + p.microbatches;
      if (has_logits && mine) compare_microbatch(expected, m - static_cast<std::int32_t>(first), position);
    }
  }

  /// Every rank learns the worst error and where it was.
  void agree() {
    report_.loss_error = report_.max_rel_error;
    record_.agree();
  }

 private:
  void compare_microbatch(std::vector<float> const& expected, std::int32_t microbatch, std::int64_t position) {
    StepProgram const& p = sharded_.program();
    std::vector<float> const actual = sharded_.read(p.inference.logits, microbatch);
    std::vector<std::int32_t> const tokens = sharded_.read_tokens(p.inference.next_ids, microbatch);
    std::int64_t const columns = static_cast<std::int64_t>(actual.size()) / p.micro_batch;
    for (std::int64_t b = 0; b < p.micro_batch; ++b) {
      float const* const row = expected.data() + b * whole_program_.padded_vocab;
      double squares = 0;
      for (std::int64_t c = 0; c < p.vocab; ++c) squares += static_cast<double>(row[c]) * static_cast<double>(row[c]);
      double const rms = std::sqrt(squares / static_cast<double>(p.vocab));
      if (!(rms > 0))
        report_.problem = fmt::format("the unsharded logits at position {} are empty or not finite", position);
      for (std::int64_t c = 0; c < columns && p.inference.first_logit + c < p.vocab; ++c)
        record(actual[b * columns + c], row[p.inference.first_logit + c], rms, "logits", position);
      // Rounding may swap near equal tokens, so a chosen one is judged by its logit.
      auto const token = std::clamp<std::int64_t>(tokens[b], 0, p.vocab - 1);
      record(row[token], *std::max_element(row, row + p.vocab), rms, "the token chosen", position);
    }
  }

  void record(float a, float b, double rms, char const* what, std::int64_t position) {
    record_.keep_worst(ParityRecord::error_of(a, b, rms),
                       [&] { return fmt::format("{} at position {}", what, position); });
  }

  Runner& sharded_;
  StepProgram const& whole_program_;
  ParityReport& report_;
  ParityRecord record_;
};

void run_at(Runner& runner, std::int64_t position, std::uint64_t seed) {
  runner.set_position(position);
  runner.set_prompt(seed);
  runner.run_gradients();
  runner.synchronize();
}

}  // namespace

ParityReport check_inference(Runner& sharded, Experiment const& experiment, Device& device, Communicator& world,
                             std::optional<LoweredStage> const& unsharded) {
  ParityReport report;
  report.tolerance = parity_tolerance(experiment.precision);
  ParityReference whole(experiment, device, world, unsharded);
  Runner* const reference = whole.get();
  LogitComparison comparison(sharded, whole, world, report);
  sharded.initialize(experiment.seed);
  std::int64_t const last = std::min(whole.stage.program().inference.context, checked_positions - 1);
  for (std::int64_t position = 0; position <= last; ++position) {
    run_at(sharded, position, experiment.seed);
    if (reference) run_at(*reference, position, experiment.seed);
    comparison.compare(position);
  }
  comparison.agree();
  return report;
}

}  // namespace shardbench
