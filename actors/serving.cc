#include <troupe/actors/serving.h>

#include <deque>
#include <optional>
#include <stdexcept>
#include <utility>

#include <troupe/ps/control/server_core.h>
#include <troupe/ps/metrics/trace_flow.h>

namespace troupe {
namespace {

void tell(const caf::actor& self, ServerControl control) {
  caf::anon_send(self, std::make_shared<const ServerControl>(std::move(control)));
}

}  // namespace

/// The shard, and what it says. One thread at a time.
class Serving::Served {
 public:
  explicit Served(ServerParts parts) : parts_(std::move(parts)) {}

  /// Something was thrown in the midst of its work: the shard may be half changed, and nothing more is done with it.
  bool failed = false;

  void open() {
    if (core_) return;
    if (parts_.device) {
      auto device = parts_.device->open();
      if (!device) throw std::runtime_error(device.error().message);
      parts_.options.device = std::move(*device);
    }
    core_.emplace(parts_.options, std::exchange(parts_.make_shard, nullptr)(parts_.options), parts_.store);
  }
  bool fenced() const { return core_->fenced(); }

  void take(const ps::Envelope& envelope, const caf::actor& self) {
    say(handle(envelope), self);
    commit(self);
  }
  void committed(const Status& status, const caf::actor& self) {
    say(core_->committed(status), self);
    commit(self);
  }
  void tick(const caf::actor& self) {
    say(core_->tick(), self);
    commit(self);
  }
  /// The device has come to where the oldest of what waits was held.
  void device_done(const Status& status) {
    if (!status) throw std::runtime_error(cat(parts_.options.self, ": ", status.error().message));
    arrived_ = held_.front().fetches;
    send(std::move(held_.front().outbox));
    held_.pop_front();
  }

 private:
  struct Held {
    ps::Outbox outbox;
    uint64_t fetches = 0;  ///< that had begun
  };

  // A push is an event of the trace: the arrow from the worker that sent it ends where the shard takes it.
  ps::Outbox handle(const ps::Envelope& envelope) {
    const auto* push = std::get_if<ps::Push>(&envelope.body);
    if (!push || !parts_.track) return core_->handle(envelope);
    Span span(parts_.track, "apply", push->step, {"worker", envelope.from.index});
    span.event.args[2] = {"parcel", push->parcel};
    span.event.flow_in = ps::flow_id(ps::Flow::push, envelope.from.index, push->parcel, push->step);
    return core_->handle(envelope);
  }

  void say(ps::Outbox outbox, const caf::actor& self) {
    if (outbox.empty()) return;
    const auto& device = parts_.options.device;
    if (!device || (held_.empty() && device->fetches() == arrived_)) return send(std::move(outbox));
    held_.push_back({std::move(outbox), device->fetches()});
    device->then([self](Status status) { tell(self, DeviceDone{std::move(status)}); });
  }

  void send(ps::Outbox outbox) {
    for (ps::Envelope& envelope : outbox) parts_.transport->send(std::move(envelope));
  }

  void commit(const caf::actor& self) {
    if (!parts_.commits) {
      while (core_->begin_commit()) say(core_->committed(core_->store().commit()), self);
    } else if (core_->begin_commit()) {
      if (!commits_) commits_ = parts_.commits();
      commits_->submit([store = parts_.store, self] { tell(self, CommitDone{store->commit()}); });
    }
  }

  ServerParts parts_;
  std::optional<ps::ServerCore> core_;
  std::shared_ptr<Executor> commits_;
  std::deque<Held> held_;
  uint64_t arrived_ = 0;  ///< fetches that have ended for sure
};

Serving::Serving(ServerParts parts)
    : transport_(parts.transport),
      who_(parts.options.self),
      retry_interval_(parts.retry_interval),
      queue_(parts.device ? std::exchange(parts.device->queue, nullptr) : nullptr),
      generation_(parts.since) {
  served_ = std::make_shared<Served>(std::move(parts));
  if (!queue_) served_->open();
}

// The queue drops the shard with its last task: its streams wait for the device when they end.
Serving::~Serving() {
  transport_->detach(who_);
  if (queue_) queue_->submit([served = std::move(served_)] {});
}

template <class Work>
bool Serving::run(const caf::actor& self, Work work) {
  if (!queue_) {
    work(*served_);
    return !served_->fenced();
  }
  queue_->submit([served = served_, self, work = std::move(work)] {
    if (served->failed) return;
    try {
      served->open();
      work(*served);
      if (served->fenced()) tell(self, ServingOver{});
    } catch (const std::exception& e) {
      served->failed = true;
      tell(self, ServingOver{e.what()});
    }
  });
  return true;
}

bool Serving::take(const ps::EnvelopePtr& envelope, const caf::actor& self) {
  if (envelope->from.role == ps::Role::coordinator) {
    if (envelope->generation < generation_) return true;  // another has taken its place: its end is not the run's
    generation_ = envelope->generation;
  }
  if (std::holds_alternative<ps::Finish>(envelope->body)) return false;
  return run(self, [envelope, self](Served& served) { served.take(*envelope, self); });
}

bool Serving::obey(const ServerControl& control, const caf::actor& self) {
  if (const auto* commit = std::get_if<CommitDone>(&control))
    return run(self, [status = commit->status, self](Served& served) { served.committed(status, self); });
  if (const auto* device = std::get_if<DeviceDone>(&control))
    return run(self, [status = device->status](Served& served) { served.device_done(status); });
  if (const auto* over = std::get_if<ServingOver>(&control)) {
    if (!over->why.empty()) throw std::runtime_error(over->why);
    return false;
  }
  return true;
}

void Serving::tick(const caf::actor& self) {
  run(self, [self](Served& served) { served.tick(self); });
}

}  // namespace troupe
