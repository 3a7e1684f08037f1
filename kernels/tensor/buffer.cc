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
void permit([[maybe_unused]] std::byte* data, [[maybe_unused]] size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
}

std::atomic<LargeBlocks*> large_blocks{nullptr};

std::byte* new_block(size_t size) {
  auto* data = static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment(size)}));
#ifdef MADV_HUGEPAGE
  if (size >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);  // a wish: without it, the same slower
#endif
  return data;
}

void delete_block(std::byte* data, size_t size) {
  permit(data, size);
  ::operator delete(data, std::align_val_t{alignment(size)});
}

std::byte* new_block_to_lend(size_t size) {
  std::byte* const data = large_blocks.load()->take(size);
  return data ? data : new_block(size);
}

void delete_block_to_lend(std::byte* data, size_t size) {
  permit(data, size);
  if (!large_blocks.load()->give_back(data, size)) delete_block(data, size);
}

class Cache {
 public:
  using Make = std::byte* (*)(size_t size);
  using Drop = void (*)(std::byte* data, size_t size);
  Cache(Make make, Drop drop) : make_(make), drop_(drop) {}

  // Never destroyed: buffers may outlive every static object of the program.
  static Cache& own() {
    static Cache* cache = new Cache(new_block, delete_block);
    return *cache;
  }
  static Cache& to_lend() {
    static Cache* cache = new Cache(new_block_to_lend, delete_block_to_lend);
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
    std::byte* const data = make_(size);
    std::lock_guard lock(mutex_);
    used_ += size;  // only now: there may have been no memory
    return data;
  }

  void give(std::byte* data, size_t size) {
    {
      std::lock_guard lock(mutex_);
      used_ -= size;
      if (cached_ + size <= limit_ && !child_) {
        cached_ += size;
        forbid(data, size);
        free_[size].push_back(data);
        return;
      }
    }
    drop_(data, size);
  }

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    for (auto& [size, blocks] : free_)
      while (cached_ > limit_ && !blocks.empty()) {
        drop_(blocks.back(), size);
        blocks.pop_back();
        cached_ -= size;
      }
  }

  BufferStats stats() {
    std::lock_guard lock(mutex_);
    return {used_, cached_};
  }

  // Around a fork. What is free here is free in the parent, too, which will use it; and what the child holds of the
  // parent's is never the child's to write.
  void hold() { mutex_.lock(); }
  void go_on() { mutex_.unlock(); }
  void go_on_as_child() {
    child_ = true;
    cached_ = 0;
    free_.clear();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;
  size_t used_ = 0;
  size_t cached_ = 0;
  size_t limit_ = size_t{256} << 20;
  bool child_ = false;
  const Make make_;
  const Drop drop_;
};

template <Cache& (*cache)()>
BufferPtr allocate_from(size_t bytes) {
  const size_t size = size_class(bytes ? bytes : 1);
  std::byte* data = cache().take(size);
  permit(data, bytes);
  forbid(data + bytes, size - bytes);
  return std::make_shared<Buffer>(data, bytes, Device{},
                                  [](Buffer& b) { cache().give(b.data(), size_class(b.bytes() ? b.bytes() : 1)); });
}

}  // namespace

BufferPtr allocate(size_t bytes) { return allocate_from<Cache::own>(bytes); }

BufferPtr allocate_to_lend(size_t bytes) {
  const bool large = bytes >= LargeBlocks::kLeastBytes && has_large_blocks();
  return large ? allocate_from<Cache::to_lend>(bytes) : allocate(bytes);
}

void set_buffer_cache_limit(size_t bytes) {
  Cache::own().set_limit(bytes);
  Cache::to_lend().set_limit(bytes);
}

void set_large_blocks(LargeBlocks& source) {
  LargeBlocks* none = nullptr;
  TROUPE_CHECK(large_blocks.compare_exchange_strong(none, &source), "a second source of large blocks");
  ::pthread_atfork([] { Cache::to_lend().hold(); }, [] { Cache::to_lend().go_on(); },
                   [] { Cache::to_lend().go_on_as_child(); });
}

bool has_large_blocks() { return large_blocks.load() != nullptr; }

BufferStats buffer_stats() {
  const BufferStats own = Cache::own().stats(), lent = Cache::to_lend().stats();
  return {own.used_bytes + lent.used_bytes, own.cached_bytes + lent.cached_bytes};
}

}  // namespace troupe
