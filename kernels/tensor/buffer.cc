#include <troupe/kernels/tensor/buffer.h>

#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include <troupe/kernels/base/check.h>

namespace troupe {
namespace {

// Blocks are handed out in classes of four sizes an octave, so that a freed block fits what is asked next
// and at most a fifth of it is slack.
size_t size_class(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) throw std::bad_alloc();  // rounding up would come round to 0
  if (bytes <= 1024) return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

// Large blocks are read and written from end to end: with huge pages a pass over 16 MB takes a third less time.
constexpr size_t kHugePage = size_t{2} << 20;

size_t alignment(size_t size) { return size >= kHugePage ? kHugePage : Buffer::kAlignment; }

// Memory that is ours and nobody's to use: a block in the cache, and what a block has beyond the bytes asked for.
// AddressSanitizer, which is told here, would take it for in use; without it this is nothing.
void forbid([[maybe_unused]] std::byte* data, [[maybe_unused]] size_t bytes) { ASAN_POISON_MEMORY_REGION(data, bytes); }
void permit([[maybe_unused]] std::byte* data, [[maybe_unused]] size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }

std::atomic<LargeBlocks*> large_blocks{nullptr};

std::byte* new_block(size_t size) {
  LargeBlocks* const source = size >= LargeBlocks::kLeastBytes ? large_blocks.load() : nullptr;
  if (source)
    if (std::byte* const data = source->take(size)) return data;
  auto* data = static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment(size)}));
#ifdef MADV_HUGEPAGE
  if (size >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);  // a wish: without it, the same slower
#endif
  return data;
}

void delete_block(std::byte* data, size_t size) {
  permit(data, size);
  LargeBlocks* const source = size >= LargeBlocks::kLeastBytes ? large_blocks.load() : nullptr;
  if (source && source->give_back(data, size)) return;
  ::operator delete(data, std::align_val_t{alignment(size)});
}

class Cache {
 public:
  // Never destroyed: buffers may outlive every static object of the program.
  static Cache& instance() {
    static Cache* cache = new Cache;
    return *cache;
  }

  std::byte* take(size_t size) {
    {
      std::lock_guard lock(mutex_);
      auto found = free_.find(size);
      if (found != free_.end() && !found->second.empty()) {
        std::byte* data = found->second.back();
        found->second.pop_back();
        cached_ -= size;
        used_ += size;
        return data;
      }
    }
    std::byte* const data = new_block(size);
    std::lock_guard lock(mutex_);
    used_ += size;  // only now: there may have been no memory
    return data;
  }

  void give(std::byte* data, size_t size) {
    {
      std::lock_guard lock(mutex_);
      used_ -= size;
      if (cached_ + size <= limit_) {
        cached_ += size;
        forbid(data, size);
        free_[size].push_back(data);
        return;
      }
    }
    delete_block(data, size);
  }

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    for (auto& [size, blocks] : free_)
      while (cached_ > limit_ && !blocks.empty()) {
        delete_block(blocks.back(), size);
        blocks.pop_back();
        cached_ -= size;
      }
  }

  BufferStats stats() {
    std::lock_guard lock(mutex_);
    return {used_, cached_};
  }

  // What comes next comes from where it comes from now.
  void drop_large() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_)
      for (; size >= LargeBlocks::kLeastBytes && !blocks.empty(); blocks.pop_back()) {
        delete_block(blocks.back(), size);
        cached_ -= size;
      }
  }

  // Around a fork. What is free here and came from there is free in the parent, too, which will use it.
  void hold() { mutex_.lock(); }
  void go_on() { mutex_.unlock(); }
  void go_on_as_child() {
    for (auto& [size, blocks] : free_)
      if (size >= LargeBlocks::kLeastBytes) {
        cached_ -= size * blocks.size();
        blocks.clear();
      }
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;
  size_t used_ = 0;
  size_t cached_ = 0;
  size_t limit_ = size_t{256} << 20;
};

}  // namespace

BufferPtr allocate(size_t bytes) {
  const size_t size = size_class(bytes ? bytes : 1);
  std::byte* data = Cache::instance().take(size);
  permit(data, bytes);
  forbid(data + bytes, size - bytes);
  return std::make_shared<Buffer>(data, bytes, Device{}, [](Buffer& b) {
    Cache::instance().give(b.data(), size_class(b.bytes() ? b.bytes() : 1));
  });
}

void set_buffer_cache_limit(size_t bytes) { Cache::instance().set_limit(bytes); }

void set_large_blocks(LargeBlocks& source) {
  LargeBlocks* none = nullptr;
  TROUPE_CHECK(large_blocks.compare_exchange_strong(none, &source), "a second source of large blocks");
  Cache::instance().drop_large();
  ::pthread_atfork([] { Cache::instance().hold(); }, [] { Cache::instance().go_on(); },
                   [] { Cache::instance().go_on_as_child(); });
}

BufferStats buffer_stats() { return Cache::instance().stats(); }

}  // namespace troupe
