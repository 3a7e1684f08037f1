#include <troupe/ps/param/shard_store.h>

#include <mutex>
#include <optional>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

// Who may append: the generation that opened the store last, and those that its actor has lived through since.
class Fence {
 public:
  Status open(Generation generation) {
    if (newest_ && generation <= *newest_)
      return fail(ErrorKind::cancelled,
                  cat("the store was opened by generation ", *newest_, ", not to be opened by ", generation));
    newest_ = generation;
    return {};
  }
  Status pass(Generation generation) {
    if (newest_ && generation < *newest_)
      return fail(ErrorKind::cancelled, cat("the store was taken from generation ", generation, " by ", *newest_));
    newest_ = generation;
    return {};
  }

 private:
  std::optional<Generation> newest_;
};

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

 private:
  std::mutex mutex_;
  Fence fence_;
};

class MemoryStore final : public ShardStore {
 public:
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

 private:
  std::mutex mutex_;
  Fence fence_;
  std::vector<Envelope> events_;
};

}  // namespace

std::shared_ptr<ShardStore> make_null_store() { return std::make_shared<NullStore>(); }
std::shared_ptr<ShardStore> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace troupe::ps
