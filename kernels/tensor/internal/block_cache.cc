#include <troupe/kernels/tensor/internal/block_cache.h>

#include <bit>
#include <limits>

namespace troupe {

/// A buffer and where its bytes go back to, in one piece of memory.
struct BlockCache::Block {
  Block(std::shared_ptr<BlockCache> from, std::byte* data, size_t size, size_t bytes, Device device)
      : cache(std::move(from)), size(size), buffer(data, bytes, device, [](Buffer&) {}) {}
  ~Block() { cache->give(buffer.data(), size); }

  std::shared_ptr<BlockCache> cache;
  size_t size;  ///< of the block
  Buffer buffer;
};

size_t BlockCache::size_class(size_t bytes) {
  // What CUDA hands out begins on 256 bytes anyway.
  constexpr size_t kLeast = 512;
  if (bytes <= kLeast) return kLeast;
  if (bytes > std::numeric_limits<size_t>::max() / 2) return bytes;  // no source has that much
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

BufferPtr BlockCache::allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  std::byte* data = take_free(size);
  if (!data) data = take(size);
  if (!data) return nullptr;
  const auto block = std::make_shared<Block>(shared_from_this(), data, size, bytes, source_->device());
  return {block, &block->buffer};
}

std::byte* BlockCache::take_free(size_t size) {
  std::lock_guard lock(mutex_);
  const auto found = free_.find(size);
  if (found == free_.end() || found->second.empty()) return nullptr;
  std::byte* data = found->second.back();
  found->second.pop_back();
  return data;
}

std::byte* BlockCache::take(size_t size) {
  std::byte* data = source_->take(size);
  if (!data) {
    release_free();
    data = source_->take(size);
  }
  std::lock_guard lock(mutex_);
  if (data) held_ += size;
  return data;
}

void BlockCache::give(std::byte* data, size_t size) {
  std::lock_guard lock(mutex_);
  free_[size].push_back(data);
}

void BlockCache::release_free() {
  std::unordered_map<size_t, std::vector<std::byte*>> free;
  {
    std::lock_guard lock(mutex_);
    free.swap(free_);
    for (const auto& [size, blocks] : free) held_ -= size * blocks.size();
  }
  for (const auto& [size, blocks] : free)
    for (std::byte* block : blocks) source_->give(block);
}

size_t BlockCache::held_bytes() const {
  std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace troupe
