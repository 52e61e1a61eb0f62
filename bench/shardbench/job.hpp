#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/config/experiment.hpp"
#include "harness/exec/devices.hpp"

namespace shardbench {

/// This process as a rank: joins the launcher's job when there is one, else it is alone. One per process.
class Job {
 public:
  Job();
  /// All ranks, for host memory: agreement, barriers.
  Communicator& world() { return *world_; }
  /// Opens the device that an experiment asks for, the GPU of this rank's number on its machine; nothing when it is
  /// open already. Collective. Throws InputError saying what is missing.
  void use(DeviceKind kind);
  /// The device in use: the CPU until use() says otherwise.
  Device& device() { return handle_->device(); }
  /// All ranks, for memory of the device in use.
  Communicator& device_world() { return device_world_ ? *device_world_ : *world_; }
  /// Versions of the device's libraries, empty for the CPU.
  std::string device_versions() const { return handle_->versions(); }
  bool first() { return world_->rank() == 0; }
  /// The text of the lowest rank that has one, on every rank, cut at 400 bytes. Collective.
  std::string agree(std::string const& text);
  /// Rank 0's text on every rank. Collective.
  std::string from_first(std::string const& text);
  /// Every rank's text, in rank order, on every rank. Collective.
  std::vector<std::string> gather(std::string const& text);
  double sum(double value);

 private:
  std::optional<MpiProcess> mpi_;  // outlives the communicator
  std::unique_ptr<Communicator> world_;
  std::optional<DeviceHandle> handle_;
  DeviceKind kind_ = DeviceKind::cpu;
  std::unique_ptr<Communicator> device_world_;  // before the device goes
  std::unique_ptr<Device> host_;
  std::unique_ptr<Stream> stream_;
};

/// Throws InputError saying what is missing for a device that cannot be had on this machine.
void check_device(DeviceKind device);

}  // namespace shardbench
