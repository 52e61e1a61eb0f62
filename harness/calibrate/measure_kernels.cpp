#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "harness/calibrate/machine.hpp"
#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "harness/program/count.hpp"
#include "harness/program/lower.hpp"

namespace shardbench {
namespace {

bool is_attention(OpKind kind) { return kind == OpKind::attention_forward || kind == OpKind::attention_backward; }
bool is_product(OpKind kind) { return kind == OpKind::gemm || kind == OpKind::grouped_gemm; }

/// Steps that together run every kind of operation, at two sizes each.
std::vector<Experiment> sample_steps(Device& device, Dtype precision) {
  bool const host = device.info().backend != "cuda";
  std::vector<Experiment> steps;
  for (char const* model : {"gpt2", "smollm-360m"})
    for (char const* seq : host ? std::array{"32", "256"} : std::array{"512", "1024"}) {
      Experiment e;
      set_field(e, "model", model);
      set_field(e, "layers", "2");
      set_field(e, "seq", seq);
      set_field(e, "precision", to_string(precision));
      set_field(e, "max-iterations", "3");
      set_field(e, "warmup", "1");
      resolve(e);
      steps.push_back(std::move(e));
    }
  return steps;
}

/// Gathers points of all labels by kind.
class KernelCurves {
 public:
  explicit KernelCurves(RankAgreement& agree) : agree_(agree) {}

  void add(StepProgram const& program, Measurement const& m) {
    StepCount const count = count_step(program, Replay(program));
    std::map<std::uint32_t, double> mean_us;
    for (LabelTime const& time : m.labels)
      if (time.count > 0) mean_us[time.label] = 1e3 * time.total_ms / static_cast<double>(time.count);
    for (std::size_t l = 0; l < program.labels.size(); ++l) {
      OpKind const kind = program.labels[l].kind;
      LabelCount const& counted = count.labels[l];
      if (is_communication(kind) || is_product(kind) || counted.count == 0) continue;
      auto const found = mean_us.find(static_cast<std::uint32_t>(l));
      // All ranks hold the same program, so all come here.
      double const us = agree_.mean(found == mean_us.end() ? 0 : found->second);
      double const size = (is_attention(kind) ? counted.flops : counted.bytes) / static_cast<double>(counted.count);
      if (us > 0 && size > 0) points_[kind].push_back({size, us});
    }
  }

  /// Sizes within a factor of two become one point: their middle.
  std::vector<MeasuredCurve> curves() {
    std::vector<MeasuredCurve> result;
    for (auto& [kind, points] : points_) {
      std::ranges::sort(points, {}, &NcclPoint::bytes);
      MeasuredCurve curve{kind, 1, {}};
      for (std::size_t begin = 0; begin < points.size();) {
        std::size_t end = begin;
        double size = 0, us = 0;
        for (; end < points.size() && points[end].bytes <= 2 * points[begin].bytes; ++end)
          size += points[end].bytes, us += points[end].time_us;
        double const count = static_cast<double>(end - begin);
        curve.points.push_back({size / count, us / count});
        begin = end;
      }
      result.push_back(std::move(curve));
    }
    return result;
  }

 private:
  RankAgreement& agree_;
  std::map<OpKind, std::vector<NcclPoint>> points_;
};

}  // namespace

void measure_kernels(Device& device, RankAgreement& agree, CalibrationOptions const& options, MachineMeasurement& out) {
  KernelCurves curves(agree);
  auto const alone = make_self_communicator();
  for (Experiment const& e : sample_steps(device, options.precision)) {
    Runner runner(lower(e, 0), device, *alone);
    agree.barrier();
    curves.add(runner.program(), measure(runner, e, device, *alone));
  }
  out.kernels = curves.curves();
}

}  // namespace shardbench
