#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/kernels/tensor/device.h>

namespace troupe {

/// A block of memory on one device, aligned to 64 bytes and of fixed size. Shared by whoever holds its
/// pointer, freed (or returned to its pool) with the last. What a buffer holds is undefined until written.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  /// Takes ownership of nothing: `release` is called once, from the thread that drops the last reference.
  Buffer(std::byte* data, size_t bytes, Device device, void (*release)(Buffer&))
      : data_(data), bytes_(bytes), device_(device), release_(release) {}
  ~Buffer() { release_(*this); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  std::byte* data_;
  size_t bytes_;
  Device device_;
  void (*release_)(Buffer&);
};

using BufferPtr = std::shared_ptr<Buffer>;

/// CPU memory from a process-wide cache of freed blocks: a training step asks for the same sizes again and
/// again, and fresh pages cost more than the arithmetic done on them. Thread-safe. The cache keeps at most
/// `set_buffer_cache_limit` bytes (default 256 MiB) of blocks that nobody uses. std::bad_alloc where there is no
/// memory.
BufferPtr allocate(size_t bytes);
void set_buffer_cache_limit(size_t bytes);

/// Bytes in buffers that are held now, and in the cache. For tests and benchmarks.
struct BufferStats {
  size_t used_bytes = 0;
  size_t cached_bytes = 0;
};
BufferStats buffer_stats();

}  // namespace troupe
