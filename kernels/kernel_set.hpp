#pragma once
#include "kernels/core/device.hpp"
#include "kernels/operations.hpp"

namespace shardbench {

/// Every operation of one back end. Pointers are device pointers; a call enqueues on `stream` and may return early.
/// Zero-sized arguments are legal and do nothing.
struct KernelSet {
  std::string_view name;              ///< "host", "reference", "cuda"
  std::string_view attention_kernel;  ///< what attention runs, for the report column
#define SHARDBENCH_MEMBER(name, Args) void (*name)(Stream&, Args const&);
  SHARDBENCH_EACH_KERNEL(SHARDBENCH_MEMBER)
#undef SHARDBENCH_MEMBER
  /// Device memory that attention of a shape keeps on a stream besides what the stream has; nullptr where it keeps
  /// none.
  std::size_t (*attention_workspace)(Stream&, AttentionShape const&, bool backward) = nullptr;
};

/// Vectorised CPU kernels; GEMM goes to the CPU BLAS.
KernelSet const& host_kernels();

/// The same contracts as obvious loops in double: what every other kernel is checked against. Runs on host pointers.
KernelSet const& reference_kernels();

}  // namespace shardbench
