#include "harness/simulate/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>

#include "harness/program/analysis/count.hpp"
#include "harness/simulate/attention_time.hpp"
#include "harness/simulate/gemm_time.hpp"
#include "harness/simulate/measured_products.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double bytes_per_us = 1e3;  // of 1 GB/s
constexpr double ms_per_us = 1e-3;

double product(std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

/// Elements of the residual stream that a norm or an addition handles: where a dropout would sit.
double dropped_elements(Op const& op) {
  if (auto const* norm = std::get_if<NormShape>(&op.shape)) return norm->residual ? product(norm->rows, norm->cols) : 0;
  return 0;
}

bool is_attention(OpKind kind) { return kind == OpKind::attention_forward || kind == OpKind::attention_backward; }

/// The product that an op's collective hands its result to, or whose result it takes, if the program has just the one:
/// where it has several, the program itself runs them in pieces. Null where the op is no part of the program.
Op const* product_of_collective(StepProgram const& program, Op const& op) {
  std::less<> const before;
  for (Segment const& segment : program.segments) {
    Op const *const first = segment.ops.data(), *const end = first + segment.ops.size();
    if (before(&op, first) || !before(&op, end)) continue;
    bool const gathers = op.kind == OpKind::all_gather;
    TensorId const id = gathers ? op.outputs[0].id : op.inputs[0].id;
    Op const* found = nullptr;
    auto const takes_part = [&](Op const& other) {
      if (other.kind != OpKind::gemm) return false;
      return gathers ? other.inputs[0].id == id || other.inputs[1].id == id : other.outputs[0].id == id;
    };
    Op const *from = gathers ? &op + 1 : first, *const to = gathers ? end : &op;
    for (; from != to; ++from) {
      if (!takes_part(*from)) continue;
      if (found && from->label == found->label) return nullptr;
      if (!found || !gathers) found = from;
    }
    return found;
  }
  return nullptr;
}

/// Below the smallest size measured a kernel's work shrinks with the size: its launch is no part of these times.
double kernel_us(MeasuredTimes const& times, double size) {
  double const least = times.points.front().first;
  return times.us(size) * std::min(1.0, size / least);
}

}  // namespace

CostModel::CostModel(SystemProfile system, SoftwareStack stack, RankLayout layout)
    : system_(std::move(system)), stack_(std::move(stack)), layout_(std::move(layout)) {
  if (stack_.linear_precision != Dtype::f32) static_cast<void>(system_.peak_tflops_of(stack_.linear_precision));
  if (stack_.attention == AttentionKind::flash && stack_.attention_efficiency == 0 &&
      system_.device.attention.kernels.empty())
    throw InputError(fmt::format(
        "system {} has no attention section, and stack {} states no attention_efficiency: one of them is needed",
        system_.name, stack_.name));
  launch_us_ = system_.device.launch_us + stack_.gap_us;
}

double CostModel::product_us(Dtype run, Dtype precision, double m, double n, double k, double output_bytes,
                             double cast_elements) const {
  auto const [found, is_new] = products_.try_emplace({static_cast<int>(precision), m, n, k, output_bytes}, 0);
  if (!is_new) return found->second;
  static_cast<void>(system_.peak_tflops_of(precision));
  double us = gemm_us(system_.device, precision, m, n, k, static_cast<double>(bytes_of(precision)), output_bytes) /
              (stack_.gemm_derate * (stack_.own_kernels ? 1 : system_.device.gemm.at(precision).sustained));
  if (precision != run)
    us += stack_.linear_cast_bytes * cast_elements / (system_.device.memory_gb_per_s * bytes_per_us);
  return found->second = us;
}

double CostModel::gemm_ms(StepProgram const& program, Op const& op, bool adds) const {
  auto const& s = std::get<GemmShape>(op.shape);
  double const out = static_cast<double>(bytes_of(program.tensors[op.outputs[0].id].dtype)) * (adds ? 2 : 1);
  // The head stays in the run's precision.
  Dtype const precision = op.layer < 0 ? program.precision : stack_.precision_that_ran(program.precision);
  double const m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  // Activations are cast before each use, weights once a step. A weight gradient shares the casts of its operands with
  // the products that made and passed them.
  std::int64_t const tokens = program.local_seq * program.micro_batch;
  double const cast = s.k == tokens ? 0.5 * (m + n) * k : (s.n == tokens ? n : m) * k;
  double const us = product_us(program.precision, precision, m, n, k, out, cast);
  if (!stack_.own_kernels || system_.device.products.empty()) return ms_per_us * us;
  auto const [found, is_new] = corrections_.try_emplace({precision, s.m, s.n, s.k, s.transpose_a, s.transpose_b}, 1);
  if (is_new) found->second = product_correction(system_.device, precision, s);
  return ms_per_us * us * found->second;
}

double CostModel::grouped_gemm_ms(StepProgram const& program, Op const& op, bool adds) const {
  auto const& s = std::get<GroupedGemmShape>(op.shape);
  double const groups = static_cast<double>(s.groups);
  if (groups <= 0) return 0;
  double const rows = std::max(1.0, s.expected_m / groups);
  double const out = adds ? 8 : 2;
  // The groups run as one kernel whose tiles fill the device together: one product with all their rows. With few rows a
  // group memory decides, as every group's weights are read.
  OpCost const cost = op_cost(program, op, adds);
  Dtype const precision = stack_.precision_that_ran(program.precision);
  double const n = static_cast<double>(s.n);
  double const together =
      s.weight_gradient
          ? product_us(program.precision, precision, static_cast<double>(s.m), n * groups, rows, out, rows * n)
          : product_us(program.precision, precision, rows * groups, n, static_cast<double>(s.k), out,
                       rows * groups * static_cast<double>(s.k));
  return ms_per_us * std::max(together, cost.bytes / (system_.device.memory_gb_per_s *
                                                      system_.device.memory_efficiency * bytes_per_us));
}

double CostModel::attention_ms(StepProgram const& program, Op const& op) const {
  auto const& s = std::get<AttentionOpShape>(op.shape);
  bool const forward = op.kind == OpKind::attention_forward;
  if (stack_.attention == AttentionKind::unfused) return ms_per_us * unfused_attention_us(program, s, forward);
  double const kernels_share = stack_.warp_mma ? system_.device.warp_mma_share : 1;
  if (stack_.attention_efficiency == 0)
    return ms_per_us * attention_us(system_.device, program.precision, s, forward) /
           (stack_.attention_factor * kernels_share);
  double const rate = system_.peak_tflops_of(program.precision) * 1e6 * kernels_share *
                      (forward ? stack_.attention_efficiency : stack_.attention_backward_efficiency);
  double const memory = system_.device.memory_gb_per_s * system_.device.memory_efficiency * bytes_per_us;
  OpCost const cost = op_cost(program, op, false);
  return ms_per_us * std::max(cost.flops / rate, cost.bytes / memory);
}

double CostModel::unfused_attention_us(StepProgram const& program, AttentionOpShape const& s, bool forward) const {
  // Batched products over all pairs; between them the scores pass through memory.
  double const heads = product(s.batch, s.heads);
  double const queries = static_cast<double>(s.seq_q), keys = static_cast<double>(s.seq_k);
  double const dim = static_cast<double>(s.head_dim), value_dim = static_cast<double>(s.value_dim);
  auto const batched = [&](double m, double n, double k) {
    return launch_us_ + product_us(program.precision, program.precision, m * heads, n, k, 2, 0);
  };
  double products = forward ? batched(queries, keys, dim) + batched(queries, value_dim, keys)
                            : batched(keys, value_dim, queries) + batched(queries, keys, value_dim) +
                                  batched(queries, dim, keys) + batched(keys, dim, queries);
  // Rows of heads that do not start at whole vectors of 16 bytes keep batched products off the tensor cores.
  std::int64_t const vector = 16 / static_cast<std::int64_t>(bytes_of(program.precision));
  if (auto const units = system_.device.peak_tflops.find(Dtype::f32);
      s.head_dim % vector != 0 && units != system_.device.peak_tflops.end())
    products =
        std::max(products, (forward ? 2 : 4) * (dim + value_dim) * queries * keys * heads / (units->second * 1e6));
  double const memory = system_.device.memory_gb_per_s * system_.device.memory_efficiency * bytes_per_us;
  return products + stack_.score_traffic * queries * keys * heads / memory;
}

double CostModel::streaming_ms(StepProgram const& program, Op const& op, bool adds) const {
  OpCost const cost = op_cost(program, op, adds);
  double traffic = stack_.elementwise_traffic;
  if (std::holds_alternative<CrossEntropyOpShape>(op.shape)) traffic = stack_.loss_traffic;
  if (stack_.norm_traffic > 0 && std::holds_alternative<NormShape>(op.shape)) traffic = stack_.norm_traffic;
  double const bytes = cost.bytes * traffic + stack_.dropout_traffic * dropped_elements(op);
  return ms_per_us * bytes / (system_.device.memory_gb_per_s * system_.device.memory_efficiency * bytes_per_us);
}

double CostModel::compute_ms(StepProgram const& program, Op const& op, bool adds) const {
  if (!stack_.own_kernels) return told_ms(program, op, adds);
  double const together = together_factor(program);
  for (MeasuredTimes const& times : system_.device.kernels)
    if (times.operation == to_string(op.kind)) {
      OpCost const cost = op_cost(program, op, adds);
      return together * ms_per_us * kernel_us(times, is_attention(op.kind) ? cost.flops : cost.bytes);
    }
  return together * told_ms(program, op, adds);
}

double CostModel::together_factor(StepProgram const& program) const {
  if (!stack_.own_kernels) return 1;
  StepExcess const& x = system_.device.excess;
  double most = 0;
  // The groups of the cut itself: others, like the data-parallel groups of experts, are there without anyone using
  // them.
  constexpr std::string_view cuts[] = {"tp", "dp_cp", "ep", "pp"};
  for (Group const& group : program.groups) {
    if (group.members.size() < 2 || std::ranges::find(cuts, group.name) == std::end(cuts)) continue;
    double const share = group.axis == Axis::tp ? x.tp : group.axis == Axis::pp ? x.pp : x.dp;
    most = most == 0 ? share : std::max(most, share);
  }
  return 1 + most;
}

double CostModel::told_ms(StepProgram const& program, Op const& op, bool adds) const {
  double const launch = ms_per_us * launch_us_;
  switch (op.kind) {
    case OpKind::gemm:
      return launch + gemm_ms(program, op, adds);
    case OpKind::grouped_gemm:
      return launch + grouped_gemm_ms(program, op, adds);
    case OpKind::attention_forward:
    case OpKind::attention_backward:
      return launch + attention_ms(program, op);
    default:
      return launch + streaming_ms(program, op, adds);
  }
}

GroupLayout const& CostModel::layout_of(std::vector<std::int64_t> const& members) const {
  std::tuple const key{members.front(), members.size() > 1 ? members[1] : 0, members.back(), members.size()};
  auto const found = layouts_.find(key);
  if (found != layouts_.end()) return found->second;
  std::vector<std::int64_t> devices;
  devices.reserve(members.size());
  for (std::int64_t const rank : members) devices.push_back(layout_.device(rank));
  return layouts_[key] = lay_out(system_.network, devices);
}

NetworkTime CostModel::network_time(OpKind kind, double payload_bytes, std::vector<std::int64_t> const& ranks) const {
  if (ranks.size() < 2) return {};
  return collective_us(system_.network, layout_of(ranks), kind, payload_bytes);
}

NetworkTime CostModel::network_time(StepProgram const& program, Op const& op) const {
  Group const& group = program.groups[op.group];
  double payload = collective_payload(program, op);
  auto const* shape = std::get_if<CollectiveShape>(&op.shape);
  if (shape && shape->busiest_count > 0) payload = shape->busiest_count * static_cast<double>(bytes_of(shape->dtype));
  if (group.axis == Axis::dp && shape && shape->dtype == Dtype::f32) payload *= stack_.gradient_bytes / 4;
  return network_time(op.kind, payload, group.members);
}

double CostModel::collective_ms(StepProgram const& program, Op const& op) const {
  double const us = network_time(program, op).total_us;
  bool const in_pieces = stack_.tp_pieces > 1 && program.groups[op.group].axis == Axis::tp;
  return ms_per_us * (in_pieces ? beside_product_us(program, op, us) : us);
}

double CostModel::beside_product_us(StepProgram const& program, Op const& op, double us) const {
  Op const* const product = product_of_collective(program, op);
  if (!product) return us;
  double const beside = gemm_ms(program, *product, false) / ms_per_us;
  return std::max(0.0, us - beside) + std::min(us, beside) / static_cast<double>(stack_.tp_pieces);
}

double CostModel::transfer_ms(StepProgram const& program, Op const& op) const {
  std::vector<std::int64_t> const& members = program.groups[op.group].members;
  static std::vector<std::int64_t> const alone;
  std::vector<std::int64_t> const* tp = &alone;
  for (Group const& group : program.groups)
    if (group.name == "tp") tp = &group.members;
  return message_ms(program.rank, members[op.peer], collective_payload(program, op), *tp);
}

double CostModel::message_ms(std::int64_t from, std::int64_t to, double bytes,
                             std::vector<std::int64_t> const& tp_ranks) const {
  GroupLayout const& pair = layout_of({from, to});
  auto const tp = static_cast<double>(tp_ranks.size());
  bool const cut = stack_.scatter_gather && tp > 1 && pair.outer_level > 0;
  double us = message_us(system_.network[pair.outer_level], cut ? bytes / tp : bytes).total_us;
  if (cut) us += network_time(OpKind::all_gather, bytes, tp_ranks).total_us;
  return ms_per_us * us;
}

double CostModel::issue_ms(StepProgram const& program, Op const& op) const {
  if (op.stream != StreamId::compute) {
    bool const tp = op.group >= 0 && program.groups[op.group].axis == Axis::tp;
    return tp ? ms_per_us * stack_.collective_host_us : 0;
  }
  // An op of ours stands for several kernels of such a stack; states go by in a few, and copies of ours (gradients cast
  // and added, weights rounded) are part of what such a stack launches anyway.
  if (op.kind == OpKind::adamw || op.kind == OpKind::copy_block) return 0;
  double launches = 1;
  if (auto const* attention = std::get_if<AttentionOpShape>(&op.shape))
    if (attention->batch * attention->heads % stack_.softmax_multiple != 0)
      launches += static_cast<double>(stack_.unfused_softmax_launches);
  return ms_per_us * stack_.host_us * launches;
}

DurationModel::LinkUse CostModel::link_use(StepProgram const& program, Op const& op) const {
  std::vector<std::int64_t> const& members = program.groups[op.group].members;
  if (members.size() < 2 || op.kind == OpKind::send || op.kind == OpKind::receive) return {};
  return {static_cast<int>(layout_of(members).outer_level), ms_per_us * network_time(program, op).wire_us};
}

}  // namespace shardbench
