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
  /// Not `writable`: memory of somebody who reads it too, of which even its only holder writes nothing.
  Buffer(std::byte* data, size_t bytes, Device device, void (*release)(Buffer&), bool writable = true)
      : data_(data), bytes_(bytes), device_(device), release_(release), writable_(writable) {}
  ~Buffer() { release_(*this); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool writable() const { return writable_; }

 private:
  std::byte* data_;
  size_t bytes_;
  Device device_;
  void (*release_)(Buffer&);
  bool writable_;
};

using BufferPtr = std::shared_ptr<Buffer>;

/// CPU memory from a process-wide cache of freed blocks: a training step asks for the same sizes again and
/// again, and fresh pages cost more than the arithmetic done on them. Thread-safe. The cache keeps at most
/// `set_buffer_cache_limit` bytes (default 256 MiB) of blocks that nobody uses. std::bad_alloc where there is no
/// memory.
BufferPtr allocate(size_t bytes);
void set_buffer_cache_limit(size_t bytes);

/// The same for what is published as it is and may go to other processes, gradients and parameters, from a cache of its
/// own of the same limit. Large ones come from the process's LargeBlocks, where there are any.
BufferPtr allocate_to_lend(size_t bytes);

/// Memory that other processes can read.
class LargeBlocks {
 public:
  /// Smaller blocks are the system's: they are copied in less time than they are lent.
  static constexpr size_t kLeastBytes = size_t{64} << 10;
  virtual ~LargeBlocks() = default;
  /// Aligned to 64 bytes, from any thread; null: the system's turn.
  virtual std::byte* take(size_t bytes) = 0;
  /// False where it came from the system.
  virtual bool give_back(std::byte* data, size_t bytes) = 0;
};
/// For the process, until its end, which `source` outlives. Once. A process that is forked takes nothing of what the
/// source had: its blocks belong to its parent.
void set_large_blocks(LargeBlocks& source);
/// set_large_blocks was called: what is allocated to be lent lies where other processes can read it.
bool has_large_blocks();

/// Bytes in buffers that are held now, and in the cache. For tests and benchmarks.
struct BufferStats {
  size_t used_bytes = 0;
  size_t cached_bytes = 0;
};
BufferStats buffer_stats();

}  // namespace troupe
