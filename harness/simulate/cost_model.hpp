#pragma once
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "harness/simulate/network_time.hpp"
#include "harness/simulate/simulate.hpp"

namespace shardbench {

/// Which device each rank sits on; empty: rank r on device r, nodes filled in rank order.
struct RankLayout {
  std::vector<std::int64_t> device_of;
  std::int64_t device(std::int64_t rank) const { return device_of.empty() ? rank : device_of[rank]; }
};

/// Durations of a program's ops on a system with a software stack: op = max(FLOPs / rate, bytes / bandwidth) + launch,
/// collective = the fastest algorithm over the levels that its group spans. Not for use by several threads at once (it
/// remembers what it computed).
class CostModel final : public DurationModel {
 public:
  /// Throws InputError when the device has no peak for the stack's linear precision.
  CostModel(SystemProfile system, SoftwareStack stack, RankLayout layout = {});

  double compute_ms(StepProgram const& program, Op const& op, bool adds) const override;
  double collective_ms(StepProgram const& program, Op const& op) const override;
  double transfer_ms(StepProgram const& program, Op const& op) const override;
  LinkUse link_use(StepProgram const& program, Op const& op) const override;
  double slowdown_beside_communication() const override { return stack_.compute_slowdown; }
  double stall_beside_compute() const override { return stack_.own_kernels ? system_.device.overlap_slowdown : 0; }
  double issue_ms(StepProgram const&, Op const& op) const override;
  bool host_awaits_messages() const override { return stack_.host_awaits_messages; }
  /// Only schedules of several chunks a stage leave a slot between a message and its use.
  bool receives_ahead(StepProgram const& program) const override {
    return stack_.receives_ahead && program.chunks.size() > 1;
  }

  /// One message between two ranks; over a slower level it may be cut over `tp` ranks and gathered by them there.
  double message_ms(std::int64_t from, std::int64_t to, double bytes,
                    std::vector<std::int64_t> const& tp_ranks = {}) const;
  /// The same collective in parts: algorithm, wire time. All-reduce, reduce-scatter, all-gather, all-to-all.
  NetworkTime network_time(StepProgram const& program, Op const& op) const;
  /// Time of a collective of any group, without a program.
  NetworkTime network_time(OpKind kind, double payload_bytes, std::vector<std::int64_t> const& ranks) const;

  SystemProfile const& system() const { return system_; }
  SoftwareStack const& stack() const { return stack_; }

 private:
  /// By the formulas alone.
  double told_ms(StepProgram const& program, Op const& op, bool adds) const;
  /// 1 plus what compute takes beyond its parts in steps cut as the program is: of several axes the one with most.
  double together_factor(StepProgram const& program) const;
  double gemm_ms(StepProgram const& program, Op const& op, bool adds) const;
  double grouped_gemm_ms(StepProgram const& program, Op const& op, bool adds) const;
  double attention_ms(StepProgram const& program, Op const& op) const;
  double unfused_attention_us(StepProgram const& program, AttentionOpShape const& s, bool forward) const;
  double streaming_ms(StepProgram const& program, Op const& op, bool adds) const;
  double product_us(Dtype run, Dtype precision, double m, double n, double k, double output_bytes,
                    double cast_elements) const;
  /// What a tensor-parallel collective lasts beyond the product that it is cut into pieces with.
  double beside_product_us(StepProgram const& program, Op const& op, double us) const;
  GroupLayout const& layout_of(std::vector<std::int64_t> const& members) const;

  SystemProfile system_;
  SoftwareStack stack_;
  RankLayout layout_;
  double launch_us_ = 0;
  mutable std::map<std::tuple<int, double, double, double, double>, double> products_;
  mutable std::map<std::tuple<Dtype, std::int64_t, std::int64_t, std::int64_t, bool, bool>, double> corrections_;
  mutable std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>, GroupLayout> layouts_;
};

}  // namespace shardbench
