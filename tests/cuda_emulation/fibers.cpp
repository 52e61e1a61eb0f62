// Blocks as fibers. A fiber starts through ucontext, and switches through setjmp/longjmp, which unlike swapcontext make
// no system call; address sanitizer is told of each switch.
#include "fibers.hpp"

#include <ucontext.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void**, void const*, std::size_t) {}
static void __sanitizer_finish_switch_fiber(void*, void const**, std::size_t*) {}
#endif

constinit EMULATION_TLS uint3 threadIdx{};
constinit EMULATION_TLS uint3 blockIdx{};
constinit EMULATION_TLS dim3 blockDim{};
constinit EMULATION_TLS dim3 gridDim{};

namespace emulation {
namespace {

constexpr unsigned warp_size = 32;
constexpr std::size_t stack_bytes = 64 << 10;

enum class FiberState { ready, at_block_barrier, at_warp_barrier, done };

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
  std::jmp_buf context;
  bool started = false;
  FiberState state = FiberState::done;
  uint3 index;
  std::uint64_t exchanged[2] = {};  ///< of this shuffle and of the one before, which slower lanes may still read
  unsigned shuffles = 0;
};

/// The fibers of one OS thread, kept from kernel to kernel: a finished one takes the next thread's body.
struct Scheduler {
  std::vector<std::unique_ptr<Fiber>> fibers;
  unsigned count = 0;
  unsigned current = 0;
  std::function<void()> const* body = nullptr;
  std::jmp_buf context;
  void const* stack_bottom = nullptr;
  std::size_t stack_size = 0;
  void* fake_stack = nullptr;
  int any_predicate = 0;
};

thread_local Scheduler own_scheduler;
/// This thread's, set by run_grid(): a few bytes of TLS at a fixed place, since it is read at every switch.
[[gnu::tls_model("initial-exec")]] thread_local constinit Scheduler* scheduler = nullptr;

[[noreturn]] void fail(char const* what) {
  std::fprintf(stderr, "emulated GPU: %s in block (%u, %u, %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z);
  std::abort();
}

// Not inlined, so that thread-local addresses are not kept across a switch.
[[gnu::noinline]] void leave(FiberState state) {
  Scheduler& s = *scheduler;
  Fiber& fiber = *s.fibers[s.current];
  fiber.state = state;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, s.stack_bottom, s.stack_size);
  if (_setjmp(fiber.context) == 0) _longjmp(s.context, 1);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void fiber_main() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler->stack_bottom, &scheduler->stack_size);
  for (;;) {
    (*scheduler->body)();
    leave(FiberState::done);
  }
}

[[gnu::noinline]] void resume(unsigned which) {
  Scheduler& s = *scheduler;
  Fiber& fiber = *s.fibers[which];
  s.current = which;
  threadIdx = fiber.index;
  __sanitizer_start_switch_fiber(&s.fake_stack, fiber.stack.get(), stack_bytes);
  if (_setjmp(s.context) == 0) {
    if (fiber.started) _longjmp(fiber.context, 1);
    fiber.started = true;
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = fiber.stack.get();
    start.uc_stack.ss_size = stack_bytes;
    start.uc_link = nullptr;
    makecontext(&start, fiber_main, 0);
    setcontext(&start);
  }
  __sanitizer_finish_switch_fiber(scheduler->fake_stack, nullptr, nullptr);
}

/// Runs one warp until all its lanes are done or at the block's barrier.
void run_warp(unsigned first) {
  Scheduler& s = *scheduler;
  unsigned const last = first + warp_size;
  for (;;) {
    unsigned at_warp = 0, alive = 0;
    for (unsigned lane = first; lane < last; ++lane) {
      if (s.fibers[lane]->state == FiberState::ready) resume(lane);
      alive += s.fibers[lane]->state != FiberState::done;
      at_warp += s.fibers[lane]->state == FiberState::at_warp_barrier;
    }
    if (at_warp == 0) return;
    if (at_warp != warp_size) fail("a shuffle that not all lanes of the warp reach");
    for (unsigned lane = first; lane < last; ++lane) s.fibers[lane]->state = FiberState::ready;
  }
}

void run_block(unsigned order_seed) {
  Scheduler& s = *scheduler;
  for (unsigned t = 0; t < s.count; ++t) s.fibers[t]->state = FiberState::ready;
  unsigned const warps = s.count / warp_size;
  for (;;) {
    for (unsigned w = 0; w < warps; ++w) run_warp((w + order_seed) % warps * warp_size);
    unsigned waiting = 0;
    for (unsigned t = 0; t < s.count; ++t) waiting += s.fibers[t]->state == FiberState::at_block_barrier;
    if (waiting == 0) return;
    if (waiting != s.count) fail("a __syncthreads that not all threads of the block reach");
    for (unsigned t = 0; t < s.count; ++t) s.fibers[t]->state = FiberState::ready;
  }
}

}  // namespace

void run_grid(dim3 grid, dim3 block, std::function<void()> const& thread, unsigned order_seed) {
  scheduler = &own_scheduler;
  Scheduler& s = *scheduler;
  s.count = block.x * block.y * block.z;
  s.body = &thread;
  while (s.fibers.size() < s.count) s.fibers.push_back(std::make_unique<Fiber>());
  for (unsigned t = 0; t < s.count; ++t)
    s.fibers[t]->index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)}, s.fibers[t]->shuffles = 0;
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(order_seed);
      }
}

std::uint64_t shuffle_xor(std::uint64_t bits, unsigned lane_mask) {
  unsigned const me = scheduler->current;
  Fiber& fiber = *scheduler->fibers[me];
  unsigned const slot = fiber.shuffles++ % 2;
  fiber.exchanged[slot] = bits;
  leave(FiberState::at_warp_barrier);
  return scheduler->fibers[me ^ lane_mask]->exchanged[slot];
}

int any_in_block(int predicate) {
  __syncthreads();  // all have read the last round's answer
  scheduler->any_predicate = 0;
  __syncthreads();
  if (predicate) scheduler->any_predicate = 1;
  __syncthreads();
  return scheduler->any_predicate;
}

}  // namespace emulation

void __syncthreads() { emulation::leave(emulation::FiberState::at_block_barrier); }
