#include "harness/exec/parity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/exec/parameter_parts.hpp"
#include "harness/exec/parity_record.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

double rms_of(std::span<float const> values) {
  double sum = 0;
  for (float const v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

using Part = ParameterPart;

/// Compares a sharded runner with rank 0's unsharded one, section by section.
class Comparison {
 public:
  Comparison(Runner& sharded, ParityReference& reference, Communicator& world, ParityReport& report)
      : sharded_(sharded),
        whole_(reference.get()),
        whole_program_(reference.stage.program()),
        report_(report),
        mine_(sections_of(sharded.program())),
        record_(reference, world, report) {}

  /// Compares every gradient or weight; with `adopt` the sharded gradients are replaced by the reference's.
  void compare(Part part, bool adopt) {
    std::vector<std::vector<float>> own = read_parameters(sharded_, part);
    // What rounding leaves of a gradient that is zero in exact arithmetic (a key bias) is judged by the other
    // gradients.
    double const floor = (whole_program_.precision == Dtype::f32 ? 0.05 : 0.25) * typical_rms(part);
    for (std::size_t i = 0; i < whole_program_.parameters.size(); ++i) {
      Parameter const& p = whole_program_.parameters[i];
      std::vector<float> const global = record_.broadcast(tensor_of(p, part), p.elements());
      check_health(p, global, part);
      std::int64_t row = 0;
      for (ParameterSection const& s : p.sections) {
        compare_section(s.key, p.cols, std::span(global).subspan(row * p.cols, s.global_rows * p.cols), own, part,
                        floor, adopt);
        row += s.rows;
      }
    }
    if (adopt) write_all(own);
  }

  ParityRecord& record() { return record_; }

 private:
  static TensorId tensor_of(Parameter const& p, Part part) { return part == Part::gradient ? p.gradient : p.weight; }

  void write_all(std::vector<std::vector<float>> const& values) {
    StepProgram const& p = sharded_.program();
    for (Bucket const& bucket : p.buckets) {
      if (bucket.gradient_shard == no_tensor) {
        for (ParameterId const i : bucket.parameters) sharded_.write(p.parameters[i].gradient, values[i]);
        continue;
      }
      std::vector<float> whole(bucket.elements);
      for (ParameterId const i : bucket.parameters)
        std::ranges::copy(values[i], whole.begin() + p.tensors[p.parameters[i].weight].storage_offset);
      sharded_.write(bucket.gradient_shard, std::span(whole).subspan(bucket.shard_begin, bucket.shard_elements));
    }
  }

  /// Root mean square over all of the reference's tensors: what is far below it is zero in exact arithmetic.
  double typical_rms(Part part) {
    double squares = 0, count = 0;
    if (whole_)
      for (Parameter const& p : whole_program_.parameters) {
        double const rms = rms_of(whole_->read(tensor_of(p, part)));
        squares += rms * rms * static_cast<double>(p.elements());
        count += static_cast<double>(p.elements());
      }
    return record_.ranks().from_first(count > 0 ? std::sqrt(squares / count) : 0);
  }

  void check_health(Parameter const& p, std::vector<float> const& values, Part part) {
    if (std::ranges::any_of(values, [](float v) { return !std::isfinite(v); }))
      note(fmt::format("{} of {} is not finite in the unsharded step", to_string(part), p.name));
    if (std::ranges::all_of(values, [](float v) { return v == 0; }))
      note(fmt::format("{} of {} is all zero in the unsharded step", to_string(part), p.name));
  }

  void note(std::string const& problem) {
    if (report_.problem.empty()) report_.problem = problem;
  }

  void compare_section(std::string const& key, std::int64_t cols, std::span<float const> global,
                       std::vector<std::vector<float>>& own, Part part, double floor, bool adopt) {
    auto const it = mine_.find(key);
    if (it == mine_.end()) return;
    double const rms = std::max(rms_of(global), floor);
    for (SectionPlace const& place : it->second) {
      Parameter const& p = sharded_.program().parameters[place.parameter];
      std::vector<float>& local = own[place.parameter];
      for (std::int64_t r = 0; r < place.section->rows; ++r) {
        std::int64_t const row = place.section->row_begin + r;
        if (row >= place.section->global_rows) break;
        // Elements of a row come from the same sums, so rounding is as large as the row is, whatever the other rows
        // are.
        double const scale = std::max(rms, rms_of(global.subspan(row * cols, cols)));
        for (std::int64_t c = 0; c < p.cols; ++c) {
          float& a = local[(place.row_offset + r) * p.cols + c];
          float const b = global[row * cols + p.col_begin + c];
          if (holds(sharded_.program(), p, (place.row_offset + r) * p.cols + c, part))
            keep(ParityRecord::error_of(a, b, scale), key, part);
          if (adopt) a = b;
        }
      }
    }
  }

  void keep(double error, std::string const& key, Part part) {
    double& slot = part == Part::gradient ? report_.gradient_error : report_.weight_error;
    slot = std::max(slot, error);
    record_.keep_worst(error, [&] { return fmt::format("{} of {}", to_string(part), key); });
  }

  Runner& sharded_;
  Runner* whole_;
  StepProgram const& whole_program_;
  ParityReport& report_;
  std::map<std::string, std::vector<SectionPlace>> mine_;
  ParityRecord record_;
};

void compare_loss(Comparison& comparison, Runner& sharded, Runner* whole, ParityReport& report) {
  // Every tensor-parallel rank of the last stage has the whole loss of its samples; one of them speaks.
  StepProgram const& p = sharded.program();
  bool const speaks = p.coordinate[Axis::tp] == 0;
  Agreement& ranks = comparison.record().ranks();
  report.loss = ranks.sum(speaks ? sharded.local_loss() : 0);
  report.reference_loss = ranks.from_first(whole ? whole->local_loss() : 0);
  if (p.loss == no_tensor) return;
  double const error = std::abs(report.loss - report.reference_loss) / std::abs(report.reference_loss);
  report.loss_error = std::max(report.loss_error, std::isfinite(error) ? error : HUGE_VAL);
  if (report.loss_error > report.max_rel_error) report.max_rel_error = report.loss_error, report.worst = "loss";
}

}  // namespace

double parity_tolerance(Dtype precision) {
  // Errors of bf16 gradients are nearly normal with a deviation of a few roundings; the largest of millions is here.
  return precision == Dtype::f32 ? 1e-4 : 32 * unit_roundoff(Dtype::bf16);
}

ParityReport check_parity(Runner& sharded, Experiment const& experiment, Device& device, Communicator& world, int steps,
                          std::optional<LoweredStage> const& unsharded) {
  ParityReport report;
  report.tolerance = parity_tolerance(experiment.precision);
  ParityReference whole(experiment, device, world, unsharded);
  Runner* const reference = whole.get();
  Comparison comparison(sharded, whole, world, report);
  sharded.initialize(experiment.seed);
  for (int step = 1; step <= steps; ++step) {
    sharded.run_gradients();
    sharded.synchronize();
    if (reference) reference->run_gradients(), reference->synchronize();
    compare_loss(comparison, sharded, reference, report);
    comparison.compare(Part::gradient, true);
    sharded.run_optimizer(step);
    sharded.synchronize();
    if (reference) reference->run_optimizer(step), reference->synchronize();
    comparison.compare(Part::weight, false);
  }
  comparison.record().agree();
  return report;
}

}  // namespace shardbench
