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

/// How far values are from others, summed over a tensor.
struct Distance {
  double squares = 0;        ///< of the sharded values less the unsharded ones
  double reference = 0;      ///< of the unsharded values
  double sharded_exact = 0;  ///< of the sharded values less the exact ones
  double own_exact = 0;      ///< of the unsharded values less the exact ones
  double exact = 0;          ///< of the exact values
  double count = 0, worst = 0;

  void add(float a, float b, float x, double scale) {
    auto const square = [](double v) { return v * v; };
    squares += square(static_cast<double>(a) - static_cast<double>(b));
    reference += square(static_cast<double>(b));
    sharded_exact += square(static_cast<double>(a) - static_cast<double>(x));
    own_exact += square(static_cast<double>(b) - static_cast<double>(x));
    exact += square(static_cast<double>(x));
    count += 1;
    worst = std::max(worst, ParityRecord::error_of(a, b, scale));
  }
  /// |a - b| over |b| in norm, where a tensor far below `floor` (its root mean square) counts as one of that size.
  double error(double floor) const {
    double const size = std::max(std::sqrt(reference), floor * std::sqrt(count));
    double const error = count > 0 ? std::sqrt(squares) / size : 0;
    return std::isfinite(error) ? error : HUGE_VAL;
  }
};

/// A rounded sharded step may be so many times as far from the exact one as the rounded unsharded one is, and so much
/// of the exact one's size on top.
constexpr double most_times_as_far = 4;
/// An element may be off by so many times what its tensor may be in norm.
constexpr double most_of_an_element = 100;

using Part = ParameterPart;

/// Compares a sharded runner with rank 0's unsharded one, section by section.
class Comparison {
 public:
  Comparison(Runner& sharded, ParityReference& reference, Communicator& world, ParityReport& report)
      : sharded_(sharded),
        whole_(reference.get()),
        whole_program_(reference.stage.program()),
        exact_(reference.exact ? &*reference.exact : nullptr),
        has_exact_(reference.stage.program().precision != Dtype::f32),
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
      std::vector<float> const exact = part == Part::gradient && has_exact_ ? broadcast_exact(i, p) : global;
      check_health(p, global, part);
      std::int64_t row = 0;
      for (ParameterSection const& s : p.sections) {
        auto const section = [&](std::vector<float> const& values) {
          return std::span(values).subspan(row * p.cols, s.global_rows * p.cols);
        };
        compare_section(s.key, p.cols, section(global), section(exact), own, part, floor, adopt);
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

  std::vector<float> broadcast_exact(std::size_t parameter, Parameter const& p) {
    Runner* const exact = exact_;
    return record_.broadcast_from(exact, exact ? exact->program().parameters[parameter].gradient : no_tensor,
                                  p.elements());
  }

  void note(std::string const& problem) {
    if (report_.problem.empty()) report_.problem = problem;
  }

  void compare_section(std::string const& key, std::int64_t cols, std::span<float const> global,
                       std::span<float const> exact, std::vector<std::vector<float>>& own, Part part, double floor,
                       bool adopt) {
    auto const it = mine_.find(key);
    if (it == mine_.end()) return;
    double const rms = std::max(rms_of(global), floor);
    for (SectionPlace const& place : it->second) {
      Parameter const& p = sharded_.program().parameters[place.parameter];
      std::vector<float>& local = own[place.parameter];
      Distance distance;
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
            distance.add(a, b, exact[row * cols + p.col_begin + c], scale);
          if (adopt) a = b;
        }
      }
      judge(distance, rms, key, part);
    }
  }

  void judge(Distance const& d, double rms, std::string const& key, Part part) {
    keep(d.error(rms), key, part);
    // One wrong element of many is little of a norm.
    if (d.worst > most_of_an_element * report_.tolerance)
      note(fmt::format("{} of {}: an element is off by {:.3g} of its tensor's size", to_string(part), key, d.worst));
    if (part != Part::gradient || !has_exact_) return;
    double const size = std::max(std::sqrt(d.exact), rms * std::sqrt(d.count));
    double const allowed = most_times_as_far * std::sqrt(d.own_exact) + unit_roundoff(Dtype::bf16) * size;
    if (!(std::sqrt(d.sharded_exact) <= allowed))
      note(fmt::format("gradient of {}: {:.2g} from the fp32 step, the unsharded one {:.2g}", key,
                       std::sqrt(d.sharded_exact) / size, std::sqrt(d.own_exact) / size));
  }

  void keep(double error, std::string const& key, Part part) {
    double& slot = part == Part::gradient ? report_.gradient_error : report_.weight_error;
    slot = std::max(slot, error);
    record_.keep_worst(error, [&] { return fmt::format("{} of {}", to_string(part), key); });
  }

  Runner& sharded_;
  Runner* whole_;
  StepProgram const& whole_program_;
  Runner* exact_;
  bool has_exact_;
  ParityReport& report_;
  std::map<std::string, std::vector<SectionPlace>> mine_;
  ParityRecord record_;
};

void compare_loss(Comparison& comparison, Runner& sharded, Runner* whole, ParityReport& report) {
  // Every tensor-parallel rank of the last stage has the whole loss of its samples; one of them speaks.
  StepProgram const& p = sharded.program();
  bool const speaks = p.coordinate[Axis::tp] == 0;
  Agreement& ranks = comparison.record().ranks();
  report.loss = ranks.sum(speaks ? local_loss(sharded) : 0);
  report.reference_loss = ranks.from_first(whole ? local_loss(*whole) : 0);
  if (p.loss == no_tensor) return;
  double const error = std::abs(report.loss - report.reference_loss) / std::abs(report.reference_loss);
  report.loss_error = std::max(report.loss_error, std::isfinite(error) ? error : HUGE_VAL);
  if (report.loss_error > report.max_rel_error) report.max_rel_error = report.loss_error, report.worst = "loss";
}

}  // namespace

namespace {

/// The norm by which gradients are clipped is the same on every rank and that of the unsharded step, whatever the
/// precision: all have the same gradients here, and its sums are in fp32.
void compare_norm(Agreement& ranks, Runner& sharded, Runner* whole, ParityReport& report) {
  if (sharded.program().clip.squares == no_tensor) return;
  constexpr double tolerance = 1e-4;
  auto const norm_of = [](Runner& runner) {
    return std::sqrt(static_cast<double>(runner.read(runner.program().clip.squares).front()));
  };
  double const expected = ranks.from_first(whole ? norm_of(*whole) : 0), mine = norm_of(sharded);
  double const error = std::abs(mine - expected) / expected;
  if (report.problem.empty() && !(error <= tolerance))
    report.problem = fmt::format("the gradient norm is {:.6g}, {:.6g} in the unsharded step", mine, expected);
}

}  // namespace

double parity_tolerance(Dtype precision) { return precision == Dtype::f32 ? 1e-5 : 16 * unit_roundoff(Dtype::bf16); }

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
    whole.run_exact();
    compare_loss(comparison, sharded, reference, report);
    comparison.compare(Part::gradient, true);
    sharded.run_optimizer(step);
    sharded.synchronize();
    if (reference) reference->run_optimizer(step), reference->synchronize();
    compare_norm(comparison.record().ranks(), sharded, reference, report);
    comparison.compare(Part::weight, false);
  }
  comparison.record().agree();
  return report;
}

}  // namespace shardbench
