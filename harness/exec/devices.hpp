#pragma once
#include <memory>
#include <string>
#include <vector>

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
  /// "query-blocks" or "cudnn". Throws IllegalConfig saying why that one cannot be had; the CPU has its own only.
  void choose_attention(std::string const& kernel) const;
  /// Active NVLinks of the GPU; -1 where nobody can tell.
  int nvlinks() const;

 private:
  DeviceHandle() = default;
  friend std::vector<std::string> visible_gpus(DeviceKind kind);
  struct Plugin;
  std::shared_ptr<Plugin> plugin_;
  std::unique_ptr<Device> device_;
};

/// Names of the GPUs that this process sees, no two alike on any machine, by number. Throws InputError saying what is
/// missing; the CPU has none.
std::vector<std::string> visible_gpus(DeviceKind kind);

/// Why a back end cannot be used here, in one line; empty when it can (for `doctor` and --device).
std::string device_problem(DeviceKind kind);

}  // namespace shardbench
