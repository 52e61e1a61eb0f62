#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/core/device.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

constexpr std::size_t small_alignment = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// The rest of the first line of `path` that starts with `key`, after its colon; empty when there is none.
std::string value_in(char const* path, std::string const& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    auto const colon = line.find(':');
    auto const start = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return {};
}

/// The number in a one-line file, or `otherwise` when it is missing or says "max".
double number_in(char const* path, double otherwise) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : otherwise;
}

/// Bytes this process may still take: what the kernel calls available, and what the control group leaves.
double free_bytes() {
  double const available = std::strtod(value_in("/proc/meminfo", "MemAvailable").c_str(), nullptr) * 1024;
  double const unlimited = std::numeric_limits<double>::infinity();
  double const group_limit = number_in("/sys/fs/cgroup/memory.max", unlimited);
  double const group_used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::max(0.0, std::min(available, group_limit - group_used));
}

class HostDevice final : public Device {
 public:
  DeviceInfo info() const override;
  KernelSet const& kernels() const override { return host_kernels(); }
  std::unique_ptr<Stream> make_stream(StreamKind kind) override;
  std::unique_ptr<Event> make_event(bool timed) override { return std::make_unique<HostEvent>(timed); }
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override { std::free(pointer); }
  void copy_from_host(void* device, void const* host, std::size_t bytes, Stream& stream) override {
    copy(device, host, bytes, stream);
  }
  void copy_to_host(void* host, void const* device, std::size_t bytes, Stream& stream) override {
    copy(host, device, bytes, stream);
  }
  void copy(void* to, void const* from, std::size_t bytes, Stream& stream) override {
    if (bytes > 0) stream.submit([=] { std::memmove(to, from, bytes); });
  }
  void fill_bytes(void* device, int value, std::size_t bytes, Stream& stream) override {
    if (bytes > 0) stream.submit([=] { std::memset(device, value, bytes); });
  }
  void synchronize() override { streams_->synchronize(); }

 private:
  std::shared_ptr<StreamRegistry> streams_ = std::make_shared<StreamRegistry>();
};

DeviceInfo HostDevice::info() const {
  DeviceInfo info;
  info.name = value_in("/proc/cpuinfo", "model name");
  if (info.name.empty()) info.name = "unknown CPU";
  info.backend = "cpu";
  info.memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  info.free_memory_bytes = free_bytes();
  return info;
}

std::unique_ptr<Stream> HostDevice::make_stream(StreamKind kind) {
  std::unique_ptr<Stream> stream;
  if (kind == StreamKind::compute) {
    stream = std::make_unique<InlineStream>();
  } else {
    stream = std::make_unique<ThreadStream>();
  }
  return StreamRegistry::adopt(streams_, std::move(stream));
}

void* HostDevice::allocate(std::size_t bytes) {
  std::size_t const alignment = bytes >= huge_page ? huge_page : small_alignment;
  double const free = free_bytes();
  // Linux hands out addresses it cannot back, so a successful malloc proves nothing.
  bool const fits = static_cast<double>(bytes) <= free;
  std::size_t const rounded = std::max(bytes + (alignment - bytes % alignment) % alignment, alignment);
  void* const pointer = fits ? std::aligned_alloc(alignment, rounded) : nullptr;
  if (pointer == nullptr) {
    throw OutOfMemory("host memory: " + std::to_string(bytes) + " bytes requested, " +
                          std::to_string(static_cast<std::uint64_t>(free)) + " free",
                      static_cast<double>(bytes), free);
  }
  if (alignment == huge_page) static_cast<void>(madvise(pointer, rounded, MADV_HUGEPAGE));
  return pointer;
}

}  // namespace

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace shardbench
