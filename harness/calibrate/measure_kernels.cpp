#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "harness/calibrate/machine.hpp"
#include "harness/exec/measure.hpp"
#include "harness/exec/runner.hpp"
#include "harness/program/analysis/count.hpp"
#include "harness/program/passes/lower.hpp"

namespace shardbench {
namespace {

bool is_attention(OpKind kind) { return kind == OpKind::attention_forward || kind == OpKind::attention_backward; }

constexpr std::array sample_flags{"model", "layers", "seq", "scope", "tp", "dp"};
using Sample = std::array<char const*, sample_flags.size()>;

/// Steps that together run every kind of operation at several sizes: whole models for the head and the loss, layers of
/// two families at three lengths, shards of tensor and data parallelism.
constexpr Sample host_samples[] = {
    {"gpt2", "1", "32", "model", "1", "1"},        {"gpt2", "1", "128", "model", "2", "1"},
    {"smollm-360m", "1", "64", "model", "1", "1"}, {"gpt2", "2", "32", "layer", "1", "1"},
    {"gpt2", "2", "128", "layer", "1", "1"},       {"gpt2", "2", "512", "layer", "1", "1"},
    {"gpt2", "2", "128", "layer", "2", "1"},       {"gpt2", "2", "256", "layer", "4", "1"},
    {"smollm-360m", "2", "32", "layer", "1", "1"}, {"smollm-360m", "2", "256", "layer", "1", "1"},
    {"smollm-360m", "2", "128", "layer", "1", "2"}};
constexpr Sample device_samples[] = {
    {"gpt2", "2", "512", "model", "1", "1"},         {"gpt2", "2", "1024", "model", "1", "1"},
    {"smollm-360m", "2", "512", "model", "1", "1"},  {"smollm-360m", "2", "2048", "model", "1", "1"},
    {"llama3.1-8b", "2", "1024", "layer", "1", "1"}, {"llama3.1-8b", "2", "4096", "layer", "8", "1"},
    {"gpt2-xl", "2", "1024", "layer", "5", "1"},     {"gpt2-xl", "2", "1024", "layer", "1", "2"}};

std::vector<Experiment> sample_steps(Device& device, Dtype precision) {
  std::vector<Experiment> steps;
  bool const host = device.info().backend != "cuda";
  for (Sample const& sample : host ? std::span<Sample const>(host_samples) : std::span<Sample const>(device_samples)) {
    Experiment e;
    for (std::size_t i = 0; i < sample.size(); ++i) set_field(e, sample_flags[i], sample[i]);
    set_field(e, "precision", to_string(precision));
    e.cut.zero_stage = e.cut.dp > 1 ? 1 : 0;
    e.cut.sequence_parallel = e.cut.tp == 4;
    e.max_iterations = 2, e.warmup = 1;
    resolve(e);
    steps.push_back(std::move(e));
  }
  return steps;
}

/// Shapes of the products, by label.
std::map<std::size_t, GemmShape> products_of(StepProgram const& program) {
  std::map<std::size_t, GemmShape> shapes;
  for (Segment const& segment : program.segments)
    for (Op const& op : segment.ops)
      if (op.kind == OpKind::gemm) shapes[op.label] = std::get<GemmShape>(op.shape);
  return shapes;
}

/// Gathers points of all labels by kind, in no order.
class KernelCurves {
 public:
  explicit KernelCurves(RankAgreement& agree) : agree_(agree) {}

  void add(StepProgram const& program, Measurement const& m) {
    StepCount const count = count_step(program, Replay(program));
    std::map<std::size_t, GemmShape> const shapes = products_of(program);
    std::map<std::uint32_t, double> median_us;  // one call that another program interrupts makes a mean useless
    for (LabelTime const& time : m.labels)
      if (time.count > 0) median_us[time.label] = time.p50_us;
    for (std::size_t l = 0; l < program.labels.size(); ++l) {
      OpKind const kind = program.labels[l].kind;
      LabelCount const& counted = count.labels[l];
      if (is_communication(kind) || kind == OpKind::grouped_gemm || counted.count == 0) continue;
      auto const found = median_us.find(static_cast<std::uint32_t>(l));
      // All ranks hold the same program, so all come here.
      double const us = agree_.mean(found == median_us.end() ? 0 : found->second);
      if (kind == OpKind::gemm) {
        if (us > 0) add_product(shapes.at(l), us);
        continue;
      }
      double const size = (is_attention(kind) ? counted.flops : counted.bytes) / static_cast<double>(counted.count);
      if (us > 0 && size > 0) points_[kind].push_back({size, us});
    }
  }

  std::vector<MeasuredProducts> const& products() const { return products_; }

  std::vector<MeasuredCurve> curves() const {
    std::vector<MeasuredCurve> result;
    for (auto const& [kind, points] : points_) result.push_back({kind, 1, points});
    return result;
  }

 private:
  void add_product(GemmShape const& s, double us) {
    auto found = std::ranges::find_if(products_, [&](MeasuredProducts const& p) {
      return p.transpose_a == s.transpose_a && p.transpose_b == s.transpose_b;
    });
    if (found == products_.end()) found = products_.insert(found, {s.transpose_a, s.transpose_b, {}});
    found->samples.push_back({static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k), us});
  }

  RankAgreement& agree_;
  std::vector<MeasuredProducts> products_;
  std::map<OpKind, std::vector<NcclPoint>> points_;
};

}  // namespace

void measure_kernels(Device& device, RankAgreement& agree, CalibrationOptions const& options, MachineMeasurement& out) {
  KernelCurves curves(agree);
  auto const alone = make_self_communicator();
  for (Experiment const& e : sample_steps(device, options.precision)) {
    Runner runner(lower(e, 0), device, *alone, {.skip_communication = true, .optimizer = {}});
    agree.barrier();
    curves.add(runner.program(), measure(runner, e, device, *alone));
  }
  out.kernels = curves.curves();
  out.products = curves.products();
}

}  // namespace shardbench
