#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <troupe/actors/all_reducer.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/tensor/executor.h>

namespace troupe::sim {

/// What is to happen at which virtual time, apart from messages: equal times in the order they were put down.
class Agenda {
 public:
  void at(int64_t us, std::function<void()> what) { entries_.emplace(us, std::move(what)); }
  bool empty() const { return entries_.empty(); }
  int64_t next_us() const { return entries_.begin()->first; }
  void run_next();
  void clear() { entries_.clear(); }

  int64_t now_us = 0;

 private:
  std::multimap<int64_t, std::function<void()>> entries_;
};

/// An in-order queue without a thread: each task runs from the agenda after a time drawn from `random`.
std::unique_ptr<Executor> make_simulated_executor(Agenda& agenda, Random& random, int64_t max_us);

/// Ends of an all-reduce of `ranks`: when the last has come, the sums (in rank order) go to everybody, each
/// after a time of its own.
std::function<std::unique_ptr<AllReducer>(uint32_t rank)> make_simulated_all_reduce(Agenda& agenda, Random& random,
                                                                                    size_t ranks, int64_t max_us);

}  // namespace troupe::sim
