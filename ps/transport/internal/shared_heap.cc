#include <troupe/ps/transport/internal/shared_heap.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/transport/internal/process_handle.h>
#include <troupe/ps/transport/internal/shared_layout.h>

namespace troupe::ps {
namespace {

// Every process of a host maps those of all others: some hundred fit into an address space.
constexpr uint64_t kMostBytes = uint64_t{256} << 30;

// Files and mappings so large are beyond what a process under such a limit may have, and what it needs itself.
bool limited(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

// Blocks are of whole pages, which can be given back to the system.
constexpr uint64_t kPage = 4096;

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

uint64_t SharedHeap::size_bytes() {
  const uint64_t memory =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(memory / 2, kMostBytes) / kPage * kPage - SharedMemory::kPrefixBytes;
}

SharedHeap* SharedHeap::of_this_process() {
  // Never destroyed: tensors may outlive every static object of the program.
  static SharedHeap* const heap = []() -> SharedHeap* {
    if (limited(RLIMIT_AS) || limited(RLIMIT_FSIZE)) return nullptr;
    auto memory = SharedMemory::create(size_bytes(), "heap of troupe");
    if (!memory) return nullptr;
    auto* const made = new SharedHeap(std::move(*memory));
    set_large_blocks(*made);
    return made;
  }();
  return heap && heap->owner_ == ::getpid() ? heap : nullptr;
}

SharedHeap::SharedHeap(std::shared_ptr<SharedMemory> memory)
    : memory_(std::move(memory)), owner_(::getpid()), arena_(memory_->bytes()) {
  // So that no block is at 0, and all begin with a page.
  TROUPE_CHECK(arena_.take(kPage - SharedMemory::kPrefixBytes) == 0u, "the heap does not begin at its beginning");
  ::madvise(memory_->data() - SharedMemory::kPrefixBytes, memory_->bytes() + SharedMemory::kPrefixBytes, MADV_HUGEPAGE);
}

std::optional<uint64_t> SharedHeap::place_of(const std::byte* data) const {
  const auto first = reinterpret_cast<uintptr_t>(memory_->data()), at = reinterpret_cast<uintptr_t>(data);
  if (at <= first || at - first >= memory_->bytes()) return std::nullopt;
  return at - first;
}

std::byte* SharedHeap::take(size_t bytes) {
  if (::getpid() != owner_) return nullptr;  // forked: all of it is the parent's
  std::unique_lock lock(mutex_);
  const auto place = arena_.take(whole_pages(bytes));
  lock.unlock();
  return place ? memory_->data() + *place : nullptr;
}

bool SharedHeap::give_back(std::byte* data, size_t bytes) {
  const auto place = place_of(data);
  if (!place) return false;
  if (::getpid() != owner_) return true;
  // First, so that the next who takes them finds them.
  ::fallocate(memory_->file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(*place + SharedMemory::kPrefixBytes), static_cast<off_t>(whole_pages(bytes)));
  std::lock_guard lock(mutex_);
  arena_.give_back(*place, whole_pages(bytes));
  return true;
}

void SharedHeap::keep(std::shared_ptr<SharedMemory> ring, Loans loans, FileDescriptor receiver) {
  std::vector<BufferPtr> returned;
  std::lock_guard lock(mutex_);
  kept_.push_back({std::move(ring), std::move(loans), std::move(receiver)});
  returned = look_around();
}

uint64_t SharedHeap::take_back() {
  std::vector<BufferPtr> returned;
  std::unique_lock lock(mutex_);
  returned = look_around();
  uint64_t sum = 0;
  for (const Kept& kept : kept_) sum += kept.loans.bytes();
  lock.unlock();
  return sum;
}

std::vector<BufferPtr> SharedHeap::look_around() {
  std::vector<BufferPtr> returned;
  std::erase_if(kept_, [&](Kept& kept) {
    if (has_ended(kept.receiver)) kept.loans.take_all_back(returned);
    shared::take_freed(*reinterpret_cast<shared::Control*>(kept.ring->data()),
                       [&](uint32_t block) { kept.loans.take_back(block, returned); });
    return kept.loans.empty();
  });
  return returned;
}

}  // namespace troupe::ps
