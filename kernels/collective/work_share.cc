#include <troupe/kernels/collective/work_share.h>

#include <atomic>
#include <string>
#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe {

struct WorkShare::Entry {
  explicit Entry(SharedJob given)
      : tiles(given.tiles), name(given.name), step(given.step), what(given.what), run(std::move(given.run)),
        done(std::move(given.done)), left(given.tiles) {}

  const int64_t tiles;
  const char* const name;
  const int64_t step;
  const TraceEvent::Arg what;
  std::function<void(int64_t)> run;
  std::function<void(Status)> done;
  std::atomic<int64_t> next{0};  ///< tile that nobody has begun
  std::atomic<int64_t> left;     ///< tiles that are not done
  std::mutex mutex;
  std::string failure;  ///< the first

  void run_tile(int64_t tile) {
    try {
      run(tile);
    } catch (const std::exception& e) {
      std::lock_guard lock(mutex);
      if (failure.empty()) failure = e.what();
    }
    if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    done(failure.empty() ? Status{} : fail(ErrorKind::failed, failure));
    run = nullptr;  // what they captured goes now, not with the last helper that looks here
    done = nullptr;
  }
};

void WorkShare::add(SharedJob job) {
  TROUPE_CHECK(job.tiles >= 1, "a job of ", job.tiles, " tiles");
  auto entry = std::make_shared<Entry>(std::move(job));
  std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
}

void WorkShare::help(const Track& track) {
  while (const auto entry = first()) {
    int64_t tile = entry->next.fetch_add(1, std::memory_order_relaxed);
    if (tile >= entry->tiles) {
      drop(entry);
      continue;
    }
    const Span span(track, entry->name, entry->step, entry->what);
    for (; tile < entry->tiles; tile = entry->next.fetch_add(1, std::memory_order_relaxed)) entry->run_tile(tile);
  }
}

std::shared_ptr<WorkShare::Entry> WorkShare::first() {
  std::lock_guard lock(mutex_);
  return entries_.empty() ? nullptr : entries_.front();
}

void WorkShare::drop(const std::shared_ptr<Entry>& entry) {
  std::lock_guard lock(mutex_);
  if (!entries_.empty() && entries_.front() == entry) entries_.pop_front();
}

}  // namespace troupe
