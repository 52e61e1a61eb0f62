#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace shardbench {

/// Bytes that the work about to be enqueued reads or writes.
struct Access {
  void const* data = nullptr;
  std::size_t bytes = 0;
  bool write = false;
};

/// Receives what each enqueued op touches. Null on real devices; the emulated one looks for missing waits with it.
inline void (*access_observer)(void* native_stream, Access const* accesses, std::size_t count) = nullptr;

/// Says what the next launch on this stream touches. Null pointers are skipped.
inline void declare_access(void* native_stream, std::initializer_list<Access> accesses) {
  if (access_observer) access_observer(native_stream, accesses.begin(), accesses.size());
}

inline Access reads(void const* data, std::size_t bytes) { return {data, bytes, false}; }
inline Access writes(void const* data, std::size_t bytes) { return {data, bytes, true}; }

/// `rows` of `cols` elements, `stride` elements apart, of `element_bytes` each: the span from first to last byte.
inline std::size_t span_bytes(std::int64_t rows, std::int64_t cols, std::int64_t stride, std::size_t element_bytes) {
  if (rows <= 0 || cols <= 0) return 0;
  return ((rows - 1) * stride + cols) * element_bytes;
}

}  // namespace shardbench
