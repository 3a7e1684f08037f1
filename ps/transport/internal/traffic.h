#pragma once
#include <atomic>
#include <cstdint>

namespace troupe::ps {

/// What a NetworkTransport counts while it works; NetworkCounters says what each means.
struct Traffic {
  std::atomic<int64_t> sent_messages{0}, sent_bytes{0};
  std::atomic<int64_t> shared_messages{0}, shared_bytes{0};
  std::atomic<int64_t> received_messages{0}, received_bytes{0};
  std::atomic<int64_t> local_messages{0};
  std::atomic<int64_t> dropped_full{0}, dropped_repeated{0}, dropped_unreachable{0}, dropped_unattached{0};
  std::atomic<int64_t> connections_lost{0};
};

inline void count(std::atomic<int64_t>& counter, int64_t by = 1) { counter.fetch_add(by, std::memory_order_relaxed); }

}  // namespace troupe::ps
