#pragma once
#include "kernels/core/device.hpp"

namespace shardbench {

/// Clock, power and throttling of the GPU at this PCI address ("0000:3b:00.0"), from the driver's management library,
/// which is opened at run time. What it, or its absence, leaves unsaid stays empty; never throws.
DeviceState nvml_state(char const* pci_bus_id) noexcept;

/// Active NVLinks of that GPU; -1 where nobody can tell.
int nvml_links(char const* pci_bus_id) noexcept;

}  // namespace shardbench
