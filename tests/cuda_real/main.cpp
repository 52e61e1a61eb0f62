// The kernels' tests hand pointers into the C++ heap to kernels. Here that heap is CUDA's managed memory, which host
// and GPU both reach: operator new takes from one managed block as soon as there is one.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

/// Blocks of powers of two from one managed allocation; freed ones are kept for the next of their size.
class ManagedHeap {
 public:
  bool open(std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMallocManaged(&memory, bytes) != cudaSuccess) return false;
    next_ = static_cast<std::byte*>(memory);
    end_ = next_ + bytes;
    begin_ = next_;  // last: from here on others may ask
    return true;
  }
  bool owns(void const* pointer) const {
    std::byte const* const begin = begin_;
    return begin && pointer >= begin && pointer < end_;
  }
  void* take(std::size_t bytes) {
    if (!begin_) return nullptr;
    std::size_t const size = std::bit_ceil(bytes + sizeof(Head)),
                      kind = static_cast<std::size_t>(std::countr_zero(size));
    std::lock_guard const lock(mutex_);
    Head* head = free_[kind];
    if (head) {
      free_[kind] = head->next;
    } else {
      if (static_cast<std::size_t>(end_ - next_) < size) return nullptr;
      head = reinterpret_cast<Head*>(next_);
      next_ += size;
    }
    head->kind = kind;
    return head + 1;
  }
  void give_back(void* pointer) {
    Head* const head = static_cast<Head*>(pointer) - 1;
    std::lock_guard const lock(mutex_);
    head->next = free_[head->kind];
    free_[head->kind] = head;
  }

 private:
  struct alignas(64) Head {
    std::size_t kind;
    Head* next;
  };
  std::atomic<std::byte*> begin_ = nullptr;
  std::byte *next_ = nullptr, *end_ = nullptr;
  std::array<Head*, 64> free_{};
  std::mutex mutex_;
};

constinit ManagedHeap heap;

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = heap.take(bytes);
  if (!memory) memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void operator delete(void* pointer) noexcept {
  if (heap.owns(pointer))
    heap.give_back(pointer);
  else
    std::free(pointer);
}

void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::size_t heap_bytes = std::size_t{2} << 30;
  if (!GTEST_FLAG_GET(list_tests) && !heap.open(heap_bytes)) {
    std::fprintf(stderr, "test_cuda: no GPU, or none with managed memory\n");
    return 2;
  }
  return RUN_ALL_TESTS();
}
