#include <troupe/ps/param/shard_store.h>

#include <mutex>

#include <troupe/ps/param/fence.h>

namespace troupe::ps {
namespace {

class NullStore final : public ShardStore {
 public:
  Status open(Generation generation, const std::function<void(const Envelope&)>&) override {
    std::lock_guard lock(mutex_);
    return fence_.open(generation);
  }
  Status append(Generation generation, const Envelope&) override {
    std::lock_guard lock(mutex_);
    return fence_.pass(generation);
  }
  Status compact(Generation generation, std::shared_ptr<const ShardImage>) override {
    std::lock_guard lock(mutex_);
    return fence_.pass(generation);
  }

 private:
  std::mutex mutex_;
  Fence fence_;
};

class MemoryStore final : public ShardStore {
 public:
  explicit MemoryStore(size_t events_between_images) : events_between_images_(events_between_images) {}

  Status open(Generation generation, const std::function<void(const Envelope&)>& replay) override {
    std::lock_guard lock(mutex_);
    TROUPE_TRY(fence_.open(generation));
    for (const Envelope& event : events_) replay(event);
    return {};
  }
  Status append(Generation generation, const Envelope& event) override {
    std::lock_guard lock(mutex_);
    TROUPE_TRY(fence_.pass(generation));
    events_.push_back(event);
    return {};
  }
  bool wants_image() const override {
    std::lock_guard lock(mutex_);
    return events_between_images_ > 0 && events_.size() > events_between_images_;
  }
  Status compact(Generation generation, std::shared_ptr<const ShardImage> image) override {
    std::lock_guard lock(mutex_);
    TROUPE_TRY(fence_.pass(generation));
    Envelope first;
    first.generation = generation;
    first.body = Replicate{0, nullptr, std::move(image)};
    events_.assign(1, std::move(first));
    return {};
  }

 private:
  const size_t events_between_images_;
  mutable std::mutex mutex_;
  Fence fence_;
  std::vector<Envelope> events_;
};

}  // namespace

std::shared_ptr<ShardStore> make_null_store() { return std::make_shared<NullStore>(); }
std::shared_ptr<ShardStore> make_memory_store(size_t events_between_images) {
  return std::make_shared<MemoryStore>(events_between_images);
}

}  // namespace troupe::ps
