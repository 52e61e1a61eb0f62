// Device memory: poisoned when allocated, so that a read of what was never written gives NaN, between guard bytes.
#include <cstdlib>
#include <map>
#include <mutex>

#include "order_checker.hpp"
#include "runtime.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
static void __asan_poison_memory_region(void const volatile*, std::size_t) {}
static void __asan_unpoison_memory_region(void const volatile*, std::size_t) {}
#endif

namespace emulation {
namespace {

constexpr std::size_t guard_bytes = 256;
constexpr int guard_value = 0xa5;
constexpr int poison_value = 0xff;  // NaN as fp32 and bf16, -1 as an index

struct Heap {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> allocations;
  std::size_t used = 0;
  std::size_t total = std::size_t{2} << 30;
  bool accepts_host_memory = false;
  Heap() {
    if (char const* bytes = std::getenv("SHARDBENCH_EMU_MEMORY_BYTES")) total = std::strtoull(bytes, nullptr, 10);
  }
};

Heap& heap() {
  static auto* heap = new Heap;
  return *heap;
}

bool is_intact(unsigned char const* guard, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    if (guard[i] != guard_value) return false;
  return true;
}

void set_guard_access(std::uintptr_t base, std::size_t bytes, bool allowed) {
  auto const set = allowed ? __asan_unpoison_memory_region : __asan_poison_memory_region;
  set(reinterpret_cast<void*>(base - guard_bytes), guard_bytes);
  set(reinterpret_cast<void*>(base + bytes), guard_bytes);
}

bool overrun(std::uintptr_t base, std::size_t bytes) {
  set_guard_access(base, bytes, true);
  auto const* data = reinterpret_cast<unsigned char const*>(base);
  bool const intact = is_intact(data - guard_bytes, guard_bytes) && is_intact(data + bytes, guard_bytes);
  set_guard_access(base, bytes, false);
  return !intact;
}

}  // namespace

bool in_device_memory(void const* data, std::size_t bytes) {
  std::lock_guard const lock(heap().mutex);
  if (heap().accepts_host_memory) return true;
  auto const begin = reinterpret_cast<std::uintptr_t>(data);
  auto next = heap().allocations.upper_bound(begin);
  if (next == heap().allocations.begin()) return false;
  --next;
  return begin + bytes <= next->first + next->second;
}

std::vector<std::string> find_overruns() {
  std::lock_guard const lock(heap().mutex);
  std::vector<std::string> found;
  for (auto const& [base, bytes] : heap().allocations)
    if (overrun(base, bytes)) found.push_back("a write outside an allocation of " + std::to_string(bytes) + " bytes");
  return found;
}

void accept_host_memory(bool accept) {
  std::lock_guard const lock(heap().mutex);
  heap().accepts_host_memory = accept;
}

std::size_t live_allocations() {
  std::lock_guard const lock(heap().mutex);
  return heap().allocations.size();
}

}  // namespace emulation

using namespace emulation;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  std::lock_guard const lock(heap().mutex);
  if (fails_now(Fault::allocation) || bytes > heap().total - heap().used) return cudaErrorMemoryAllocation;
  std::size_t const whole = (bytes + 2 * guard_bytes + 255) / 256 * 256;
  auto* const memory = static_cast<unsigned char*>(std::aligned_alloc(256, whole));
  if (!memory) return cudaErrorMemoryAllocation;
  std::memset(memory, guard_value, whole);
  std::memset(memory + guard_bytes, poison_value, bytes);
  *pointer = memory + guard_bytes;
  auto const base = reinterpret_cast<std::uintptr_t>(*pointer);
  heap().allocations[base] = bytes;
  heap().used += bytes;
  set_guard_access(base, bytes, false);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (!pointer) return cudaSuccess;
  cudaDeviceSynchronize();  // as CUDA does
  std::lock_guard const lock(heap().mutex);
  auto const base = reinterpret_cast<std::uintptr_t>(pointer);
  auto const found = heap().allocations.find(base);
  if (found == heap().allocations.end()) return cudaErrorInvalidValue;
  std::size_t const bytes = found->second;
  bool const damaged = overrun(base, bytes);
  set_guard_access(base, bytes, true);
  order_checker().forget(pointer, bytes);
  heap().used -= bytes;
  heap().allocations.erase(found);
  std::free(reinterpret_cast<void*>(base - guard_bytes));
  return damaged ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  std::lock_guard const lock(heap().mutex);
  *total = heap().total;
  *free = heap().total - heap().used;
  return cudaSuccess;
}
