#include <troupe/ps/control/server_core.h>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

ServerCore::ServerCore(ShardOptions options, std::unique_ptr<Shard> shard, std::shared_ptr<ShardStore> store)
    : options_(std::move(options)), shard_(std::move(shard)), store_(std::move(store)) {
  TROUPE_CHECK(shard_ && store_, options_.self, " has no shard or no store");
}

Outbox ServerCore::handle(const Envelope& envelope) {
  if (fenced()) return {};
  if (envelope.from.role == Role::replica) {
    store_->hear(envelope);
    return release({});
  }
  if (envelope.from.role == Role::worker && store_->full()) return release({});
  return release(shard_->handle(envelope));
}

Outbox ServerCore::tick() {
  if (fenced()) return {};
  return release(held_.empty() ? shard_->tick() : Outbox{}, true);  // what waits is said once
}

bool ServerCore::begin_commit() {
  if (committing_ || fenced() || !store_->needs_commit()) return false;
  return committing_ = true;
}

Outbox ServerCore::committed(const Status& status) {
  committing_ = false;
  if (status) return fenced() ? Outbox{} : release({});
  if (status.error().kind == ErrorKind::cancelled) {
    fenced_ = true;
    held_.clear();
    return {};
  }
  // Of no event: the run has to hear it though nothing is safe any more.
  return {{options_.self, options_.coordinator, 0, Fault{cat(options_.self, ": ", status.error().message)}}};
}

Outbox ServerCore::release(Outbox said, bool again) {
  if (fenced()) {
    held_.clear();
    return {};
  }
  Outbox out = store_->say(again);
  const uint64_t appended = store_->appended(), safe = store_->safe();
  for (Envelope& envelope : said)
    if (held_.size() < kMostHeld) held_.emplace_back(appended, std::move(envelope));
  for (; !held_.empty() && held_.front().first <= safe; held_.pop_front())
    out.push_back(std::move(held_.front().second));
  return out;
}

}  // namespace troupe::ps
