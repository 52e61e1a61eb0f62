// NVML is part of the driver and not of the toolkit: neither header nor library is needed to build. The few functions
// used keep their signatures by NVIDIA's promise of a stable ABI (NVML API Reference, "Device Queries").
#include <dlfcn.h>

#include <string>

#include "kernels/core/cuda/nvml.hpp"

namespace shardbench {
namespace {

using NvmlDevice = struct nvmlDevice_st*;
constexpr int success = 0;
constexpr unsigned most_links = 18;      // NVML_NVLINK_MAX_LINKS; asking for one too many is answered by an error
constexpr int multiprocessor_clock = 1;  // NVML_CLOCK_SM

/// Bits of nvmlClocksEventReasons that mean a clock lower than asked for; idling and a user's own settings do not.
struct Reason {
  unsigned long long bit;
  char const* name;
};
constexpr Reason slowdowns[] = {{0x04, "power cap"},
                                {0x08, "hardware slowdown"},
                                {0x20, "thermal (software)"},
                                {0x40, "thermal (hardware)"},
                                {0x80, "power brake"}};

/// The opened library; functions that it lacks are null.
class Nvml {
 public:
  static Nvml const& instance() {
    static Nvml const nvml;
    return nvml;
  }
  DeviceState state(char const* pci_bus_id) const {
    DeviceState state;
    NvmlDevice device = nullptr;
    if (!started_ || !find_device_ || find_device_(pci_bus_id, &device) != success) return state;
    unsigned value = 0;
    if (clock_ && clock_(device, multiprocessor_clock, &value) == success) state.clock_mhz = value;
    if (power_ && power_(device, &value) == success) state.power_w = value / 1000.0;
    unsigned long long reasons = 0;
    if (!reasons_ || reasons_(device, &reasons) != success) return state;
    state.throttled = false;
    for (Reason const& reason : slowdowns) {
      if ((reasons & reason.bit) == 0) continue;
      state.throttle_reasons += (state.throttle_reasons.empty() ? "" : ", ") + std::string(reason.name);
      state.throttled = true;
    }
    return state;
  }
  int links(char const* pci_bus_id) const {
    NvmlDevice device = nullptr;
    if (!started_ || !link_ || !find_device_ || find_device_(pci_bus_id, &device) != success) return -1;
    int count = 0;
    for (unsigned link = 0; link < most_links; ++link) {
      int active = 0;
      count += link_(device, link, &active) == success && active == 1 ? 1 : 0;
    }
    return count;
  }

 private:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return;
    int (*start)() = nullptr;
    find(start, "nvmlInit_v2");
    find(find_device_, "nvmlDeviceGetHandleByPciBusId_v2");
    find(clock_, "nvmlDeviceGetClockInfo");
    find(power_, "nvmlDeviceGetPowerUsage");
    find(link_, "nvmlDeviceGetNvLinkState");
    find(reasons_, "nvmlDeviceGetCurrentClocksEventReasons");
    if (!reasons_) find(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons");  // its name before driver 535
    started_ = start && start() == success;
  }
  template <class Function>
  void find(Function& function, char const* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;  // stays open: it is asked again and again, and the driver counts its users
  bool started_ = false;
  int (*find_device_)(char const*, NvmlDevice*) = nullptr;
  int (*clock_)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power_)(NvmlDevice, unsigned*) = nullptr;
  int (*link_)(NvmlDevice, unsigned, int*) = nullptr;
  int (*reasons_)(NvmlDevice, unsigned long long*) = nullptr;
};

}  // namespace

DeviceState nvml_state(char const* pci_bus_id) noexcept {
  try {
    return Nvml::instance().state(pci_bus_id);
  } catch (...) {  // no memory for a text: as good as no NVML
    return {};
  }
}

int nvml_links(char const* pci_bus_id) noexcept { return Nvml::instance().links(pci_bus_id); }

}  // namespace shardbench
