#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/kernels/tensor/buffer.h>

namespace troupe {

/// Where blocks come from: pinned host memory, or one device's. Thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// nullptr where there is no room for it.
  virtual std::byte* take(size_t bytes) = 0;
  /// Frees a block that nothing uses any more, or that only work uses which has been submitted: it waits for that.
  virtual void give(std::byte* block) = 0;
  virtual Device device() const = 0;
  /// For the error: "3.2 GB of 80 GB are free on CUDA device 0".
  virtual std::string state() const = 0;
};

/// Freed blocks, kept for whoever asks for as much next: a training step asks for the same sizes again and again, and a
/// block from the driver costs as much as a kernel. Blocks are of four sizes an octave: a fifth at most is slack.
///
/// A buffer of device memory goes back with its last reference while kernels that use it may still run: the cache of a
/// stream is for what that stream runs later. Another stream that uses such a buffer is ordered before the buffer goes,
/// or holds it until it has run. Thread-safe; lives as long as its buffers. Going back calls nothing of CUDA: it may
/// happen in a stream's callback.
class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  explicit BlockCache(std::shared_ptr<BlockSource> source) : source_(std::move(source)) {}
  ~BlockCache() { release_free(); }

  /// nullptr where the source has no room, not even after all free blocks here went back to it.
  BufferPtr allocate(size_t bytes);
  /// Gives all free blocks back to the source.
  void release_free();
  size_t held_bytes() const;  ///< in all blocks, free or not
  std::string state() const { return source_->state(); }

  static size_t size_class(size_t bytes);

 private:
  struct Block;
  std::byte* take(size_t size);
  std::byte* take_free(size_t size);
  void give(std::byte* data, size_t size);

  std::shared_ptr<BlockSource> source_;
  mutable std::mutex mutex_;
  std::unordered_map<size_t, std::vector<std::byte*>> free_;
  size_t held_ = 0;
};

}  // namespace troupe
