// A management library that knows one GPU, at 0000:00:00.0; FAKE_NVML_REASONS is what slows it down.
#include <cstdlib>
#include <cstring>

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetHandleByPciBusId_v2(char const* bus, void** device);
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz);
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts);
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons);
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active);
}

namespace {
int started = 0, gpu = 0;
}

int nvmlInit_v2() {
  started = 1;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(char const* bus, void** device) {
  if (!started || std::strcmp(bus, "0000:00:00.0") != 0) return 6;  // NVML_ERROR_NOT_FOUND
  *device = &gpu;
  return 0;
}

int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  if (device != &gpu || type != 1) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *mhz = 1755;
  return 0;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &gpu || std::getenv("FAKE_NVML_NO_POWER")) return 3;  // NVML_ERROR_NOT_SUPPORTED
  *milliwatts = 412345;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (device != &gpu) return 2;
  char const* const asked = std::getenv("FAKE_NVML_REASONS");
  *reasons = asked ? std::strtoull(asked, nullptr, 16) : 0;
  return 0;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  if (device != &gpu || link >= 12) return 2;
  *active = link < 10 ? 1 : 0;
  return 0;
}
