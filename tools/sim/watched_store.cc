#include "watched_store.h"

namespace troupe::sim {
namespace {

using ps::Endpoint;
using ps::Envelope;

class WatchedStore final : public ps::ShardStore {
 public:
  WatchedStore(ps::ServerId server, std::shared_ptr<ShardStore> store, Oracle& oracle)
      : server_(server), store_(std::move(store)), oracle_(oracle) {}
  Status open(ps::Generation generation, const std::function<void(const Envelope&)>& replay) override {
    return store_->open(generation, replay);
  }
  Status append(ps::Generation generation, const Envelope& event) override {
    const Status status = store_->append(generation, event);
    if (status) oracle_.stored(server_, event);
    self_ = event.to;
    if (const auto* m = std::get_if<ps::Membership>(&event.body); m && server_ < m->replicas.size())
      replica_ = m->replicas[server_];
    return status;
  }
  bool wants_image() const override { return store_->wants_image(); }
  Status compact(ps::Generation generation, std::shared_ptr<const ps::ShardImage> image) override {
    const bool wanted = store_->wants_image();
    const Status status = store_->compact(generation, std::move(image));
    if (status && wanted && replica_ != 0) oracle_.imaged(self_, replica_);
    return status;
  }
  uint64_t appended() const override { return store_->appended(); }
  uint64_t safe() const override { return store_->safe(); }
  Status commit() override { return store_->commit(); }
  bool needs_commit() const override { return store_->needs_commit(); }
  ps::Outbox say(bool again) override { return store_->say(again); }
  void hear(const Envelope& from_replica) override { store_->hear(from_replica); }
  bool full() const override { return store_->full(); }

 private:
  ps::ServerId server_;
  Endpoint self_;
  ps::Incarnation replica_ = 0;
  std::shared_ptr<ShardStore> store_;
  Oracle& oracle_;
};

}  // namespace

std::shared_ptr<ps::ShardStore> make_watched_store(ps::ServerId server, std::shared_ptr<ps::ShardStore> store,
                                                   Oracle& oracle) {
  return std::make_shared<WatchedStore>(server, std::move(store), oracle);
}

}  // namespace troupe::sim
