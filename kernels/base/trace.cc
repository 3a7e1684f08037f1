#include <troupe/kernels/base/trace.h>

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {
namespace {

constexpr size_t kChunkEvents = 512;

struct Chunk {
  std::array<TraceEvent, kChunkEvents> events;
  std::atomic<Chunk*> next{nullptr};
};

}  // namespace

// Chunks in a chain that its one writer extends. A reader sees what was published by `size`, which never takes a
// chunk away from under it: they go with the buffer.
class TraceBuffer {
 public:
  TraceBuffer(std::shared_ptr<std::atomic<int64_t>> room, std::function<TraceEvent::Time()> clock)
      : room_(std::move(room)), now_(std::move(clock)) {}
  ~TraceBuffer() {
    for (Chunk* chunk = first_; chunk;) delete std::exchange(chunk, chunk->next.load());
  }

  TraceEvent::Time now() const { return now_(); }

  void record(const TraceEvent& event) {
    const size_t size = size_.load(std::memory_order_relaxed);
    if (size == chunks_ * kChunkEvents && !grow()) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    last_->events[size % kChunkEvents] = event;
    size_.store(size + 1, std::memory_order_release);
  }

  void read(std::vector<TraceEvent>& into) const {
    size_t size = size_.load(std::memory_order_acquire);
    for (const Chunk* chunk = first_; size > 0; chunk = chunk->next.load(std::memory_order_acquire)) {
      const size_t here = std::min(size, kChunkEvents);
      into.insert(into.end(), chunk->events.begin(), chunk->events.begin() + static_cast<ptrdiff_t>(here));
      size -= here;
    }
  }
  int64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  bool grow() {
    if (room_->fetch_sub(1, std::memory_order_relaxed) <= 0) {
      room_->fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    auto* made = new Chunk;
    if (last_) last_->next.store(made, std::memory_order_release);
    else first_.store(made, std::memory_order_release);
    last_ = made;
    ++chunks_;
    return true;
  }

  std::shared_ptr<std::atomic<int64_t>> room_;
  const std::function<TraceEvent::Time()> now_;
  std::atomic<Chunk*> first_{nullptr};
  Chunk* last_ = nullptr;
  size_t chunks_ = 0;
  std::atomic<size_t> size_{0};
  std::atomic<int64_t> lost_{0};
};

TraceEvent::Time Track::now() const { return buffer_ ? buffer_->now() : TraceEvent::Time{}; }

void Track::record(const TraceEvent& event) const {
  if (buffer_) buffer_->record(event);
}

Trace::Trace(Options options)
    : options_(std::move(options)),
      room_(std::make_shared<std::atomic<int64_t>>(
          static_cast<int64_t>((options_.max_events + kChunkEvents - 1) / kChunkEvents))) {}

Trace::~Trace() = default;

// The row is shared, the buffer is not: its former writer may still be at work.
Track Trace::track(const std::string& name) {
  Track track;
  track.buffer_ = std::make_shared<TraceBuffer>(room_, options_.now);
  track.first_ = options_.first_step;
  track.last_ = options_.last_step;
  std::lock_guard lock(mutex_);
  buffers_.emplace_back(name, track.buffer_);
  return track;
}

const char* Trace::keep(const std::string& text) {
  std::lock_guard lock(mutex_);
  return kept_.insert(text).first->c_str();
}

std::vector<Trace::Row> Trace::rows() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::vector<TraceEvent>> by_name;
  for (const auto& [name, buffer] : buffers_) buffer->read(by_name[name]);
  std::vector<Row> rows;
  for (auto& [name, events] : by_name) rows.push_back({name, std::move(events)});
  return rows;
}

int64_t Trace::lost() const {
  std::lock_guard lock(mutex_);
  int64_t lost = 0;
  for (const auto& [name, buffer] : buffers_) lost += buffer->lost();
  return lost;
}

}  // namespace troupe
