#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/base/trace.h>

namespace troupe {

/// Work that several threads do together, a tile each at a time.
struct SharedJob {
  int64_t tiles = 1;
  std::function<void(int64_t tile)> run;  ///< any thread; different tiles at once; an exception fails the job
  std::function<void(Status)> done;       ///< once, by whoever ran the last tile; must not throw
  const char* name = "";                  ///< as for TraceEvent, as are the next two
  int64_t step = 0;
  TraceEvent::Arg what;
};

/// Jobs for whoever has nothing better to do. Nobody ever waits in here, so threads may outnumber cores and one that
/// computes is not held up: the others do the work, and what they left it does when it comes. Thread-safe.
class WorkShare {
 public:
  void add(SharedJob job);
  /// Runs tiles, oldest job first, until there is none that nobody has begun. Each job that this thread had a part in
  /// is an event of `track`.
  void help(const Track& track = {});

 private:
  struct Entry;
  std::shared_ptr<Entry> first();
  void drop(const std::shared_ptr<Entry>& entry);

  std::mutex mutex_;
  std::deque<std::shared_ptr<Entry>> entries_;  ///< that may have tiles nobody has begun
};

}  // namespace troupe
