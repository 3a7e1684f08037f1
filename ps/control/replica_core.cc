#include <troupe/ps/control/replica_core.h>

#include <utility>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {

ReplicaCore::ReplicaCore(ReplicaOptions options) : options_(std::move(options)), generation_(options_.since) {
  TROUPE_CHECK(options_.self.role == Role::replica && options_.initial, options_.self, " is made for a replica");
}

Outbox ReplicaCore::handle(const Envelope& envelope) {
  Outbox out;
  if (handed_over_) return out;
  if (envelope.from.role == Role::coordinator) {
    if (envelope.generation < generation_) return out;
    generation_ = envelope.generation;
  }
  if (const auto* replicate = std::get_if<Replicate>(&envelope.body)) {
    on_replicate(out, envelope, *replicate);
  } else if (const auto* ack = std::get_if<SyncedAck>(&envelope.body)) {
    if (server_ && ack->server == *server_) synced_heard_ = true;
  } else if (std::holds_alternative<Membership>(envelope.body) && envelope.from.role == Role::coordinator) {
    out.push_back({options_.self, envelope.from, envelope.generation, MembershipAck{}});
  } else if (std::holds_alternative<Finish>(envelope.body) && envelope.from.role == Role::coordinator) {
    finished_ = true;
  }
  return out;
}

Outbox ReplicaCore::tick() const {
  if (!server_ || synced_heard_ || handed_over_ || broken_) return {};
  return {{options_.self, options_.shard.coordinator, generation_, Synced{*server_}}};
}

void ReplicaCore::on_replicate(Outbox& out, const Envelope& e, const Replicate& replicate) {
  if (e.from.role != Role::server || e.from.index != options_.self.index) return;
  if (server_ && e.from.incarnation < server_->incarnation) return;
  const bool begins = !server_ || e.from.incarnation > server_->incarnation;
  if (begins && (replicate.index != 0 || !replicate.image)) return;  // the image is still on its way
  generation_ = std::max(generation_, e.generation);
  Status status;
  if (begins) {
    if (status = begin(e, *replicate.image); status) out = tick();
  } else if (broken_) {
    return;
  } else if (replicate.event && replicate.index > held_ && replicate.index <= held_ + kAhead) {
    early_.emplace(replicate.index, replicate.event);
    status = follow_all();
  }
  if (status) return out.push_back({options_.self, *server_, generation_, ReplicateAck{held_}});
  broken_ = true;
  out.push_back({options_.self, options_.shard.coordinator, generation_,
                 Fault{cat(options_.self, " is no twin of ", e.from, ": ", status.error().message)}});
}

Status ReplicaCore::begin(const Envelope& e, const ShardImage& image) {
  ShardOptions options = options_.shard;
  options.self = e.from;
  auto twin = Shard::make_from(image, options, make_null_store(), options_.initial);
  if (!twin) return tl::unexpected(twin.error());
  twin_ = std::move(*twin);
  server_ = e.from;
  held_ = 0;
  early_.clear();
  synced_heard_ = broken_ = false;
  return {};
}

Status ReplicaCore::follow_all() {
  for (auto next = early_.begin(); next != early_.end() && next->first == held_ + 1; next = early_.erase(next)) {
    TROUPE_TRY(twin_->follow(*next->second));
    ++held_;
  }
  return {};
}

Result<std::unique_ptr<Shard>> ReplicaCore::take_over(const Endpoint& server, std::shared_ptr<ShardStore> store) {
  if (!twin_ || broken_ || handed_over_)
    return fail(ErrorKind::missing, cat(options_.self, " holds no shard that ", server, " could go on with"));
  if (server.role != Role::server || server.index != options_.self.index || server.incarnation <= server_->incarnation)
    return fail(ErrorKind::invalid, cat(server, " cannot follow ", *server_));
  ShardOptions options = options_.shard;
  options.self = server;
  auto shard = Shard::make_from(twin_->image(), options, std::move(store), options_.initial);
  if (!shard) return shard;
  handed_over_ = true;
  twin_.reset();
  early_.clear();
  return shard;
}

}  // namespace troupe::ps
