#pragma once
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace troupe::test {

/// Runs body(rank) for every rank, each on a thread of its own, and waits for them. The first exception by
/// rank comes out here. Boost's assertions are not thread-safe: a body records, the caller checks.
inline void run_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace troupe::test
