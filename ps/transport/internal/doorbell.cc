#include <troupe/ps/transport/internal/doorbell.h>

#include <linux/futex.h>
#include <sys/syscall.h>

#include <ctime>

namespace troupe::ps {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

Result<Doorbell> Doorbell::create() {
  auto memory = SharedMemory::create(sizeof(uint32_t));
  if (!memory) return tl::unexpected(memory.error());
  return Doorbell(std::move(*memory));
}

Result<Doorbell> Doorbell::open(const SharedOffer& offer) {
  if (offer.bytes != sizeof(uint32_t)) return fail(ErrorKind::invalid, "the offered doorbell has another size");
  auto memory = SharedMemory::open(offer, sizeof(uint32_t));
  if (!memory) return tl::unexpected(memory.error());
  return Doorbell(std::move(*memory));
}

void Doorbell::ring() {
  if (asleep().load() == 0 || asleep().exchange(0) == 0) return;
  ::syscall(SYS_futex, &asleep(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Doorbell::announce_sleep() { asleep().store(1); }

void Doorbell::stay() { asleep().store(0, std::memory_order_relaxed); }

void Doorbell::wait(std::chrono::milliseconds at_most) {
  const std::timespec timeout{static_cast<time_t>(at_most.count() / 1000), (at_most.count() % 1000) * 1'000'000};
  ::syscall(SYS_futex, &asleep(), FUTEX_WAIT, 1, &timeout, nullptr, 0);
  stay();
}

}  // namespace troupe::ps
