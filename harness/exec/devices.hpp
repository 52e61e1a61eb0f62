#pragma once
#include <memory>
#include <string>

#include "harness/comm/communicator.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// A device and the communicators that move its memory. Back ends other than the CPU's come from a library beside the
/// program that is opened when asked for, so a machine without a driver runs everything else.
class DeviceHandle {
 public:
  /// `ordinal` is the GPU's number on this machine. `automatic` takes the first back end that works: cuda, then cpu.
  /// Throws InputError saying what is missing.
  static DeviceHandle open(DeviceKind kind, int ordinal);
  DeviceHandle(DeviceHandle&&) noexcept;
  DeviceHandle& operator=(DeviceHandle&&) noexcept;
  ~DeviceHandle();

  Device& device() const { return *device_; }
  bool is_host() const;
  /// A communicator over the same ranks as `host_world` for this device's memory. Collective.
  std::unique_ptr<Communicator> connect(Communicator& host_world, double timeout_seconds) const;
  /// Versions of the back end's libraries, for the versions column; empty for the CPU.
  std::string versions() const;

 private:
  DeviceHandle() = default;
  struct Plugin;
  std::shared_ptr<Plugin> plugin_;
  std::unique_ptr<Device> device_;
};

/// Why a back end cannot be used here, in one line; empty when it can (for `doctor` and --device).
std::string device_problem(DeviceKind kind);

}  // namespace shardbench
