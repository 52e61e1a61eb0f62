#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/comm/gpu_placement.hpp"
#include "harness/comm/nccl_options.hpp"
#include "harness/config/experiment.hpp"
#include "harness/exec/agreement.hpp"
#include "harness/exec/devices.hpp"

namespace shardbench {

/// How this process joins its job.
struct JobOptions {
  bool insecure_rendezvous = false;  ///< meets ranks of other machines without a secret, where there is no MPI
};

/// This process as a rank: joins the launcher's job when there is one, else it is alone. One per process.
class Job {
 public:
  explicit Job(JobOptions options = {});
  /// All ranks, for host memory: agreement, barriers.
  Communicator& world() { return *world_; }
  /// Opens the device that an experiment asks for, and NCCL as it asks; nothing when both are open already. Collective.
  /// Throws, on all ranks alike, InputError saying what is missing, and IllegalConfig for what this process cannot
  /// change any more: NCCL reads its options once.
  void use(Experiment const& experiment);
  /// The device in use: the CPU until use() says otherwise.
  Device& device() { return handle_->device(); }
  /// All ranks, for memory of the device in use.
  Communicator& device_world() { return device_world_ ? *device_world_ : *world_; }
  /// Versions of the device's libraries, empty for the CPU.
  std::string device_versions() const { return handle_->versions(); }
  bool on_host() const { return handle_->is_host(); }
  /// Ranks that share the memory of this rank's device.
  int ranks_on_device() const { return ranks_on_device_; }
  bool first() { return world_->rank() == 0; }
  /// The text of the lowest rank that has one, on every rank, cut at 400 bytes. Collective.
  std::string agree(std::string const& text) { return agreement_->first_text(text); }
  /// Rank 0's text on every rank. Collective.
  std::string from_first(std::string const& text) { return agreement_->from_first(text); }
  /// Every rank's text, in rank order, on every rank. Collective.
  std::vector<std::string> gather(std::string const& text) { return agreement_->gather(text); }
  double sum(double value) { return agreement_->sum(value); }
  double maximum(double value) { return agreement_->maximum(value); }

 private:
  /// What use() has opened.
  struct Setup {
    DeviceKind device = DeviceKind::cpu;
    NcclOptions nccl;
    bool share_gpu = false;
    bool operator==(Setup const&) const = default;
  };
  DeviceKind kind_for(Experiment const& experiment);
  GpuChoice choose(DeviceKind kind, bool share);
  void set_nccl(Setup const& next);
  void open(Setup const& next);

  std::optional<MpiProcess> mpi_;  // outlives the communicator
  std::unique_ptr<Communicator> world_;
  std::optional<Agreement> agreement_;  ///< over world_
  std::optional<DeviceHandle> handle_;
  Setup setup_;
  std::optional<Setup> nccl_setup_;  ///< with which NCCL was started in this process
  int ranks_on_device_ = 1;
  std::unique_ptr<Communicator> device_world_;  // before the device goes
};

/// The options that an experiment has for NCCL.
NcclOptions nccl_options_of(Experiment const& experiment);

/// Throws InputError saying what is missing for a device that cannot be had on this machine, or for flags that it does
/// not honour.
void check_device(Experiment const& experiment);

}  // namespace shardbench
