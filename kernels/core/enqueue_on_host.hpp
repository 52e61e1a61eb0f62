#pragma once
#include "kernels/core/device.hpp"

namespace shardbench {

/// A kernel of the calling thread as an entry of a KernelSet: submitted to the stream with its arguments copied.
template <class Args, void (*kernel)(Args const&)>
void enqueue_on_host(Stream& stream, Args const& args) {
  stream.submit([args] { kernel(args); });
}

}  // namespace shardbench
