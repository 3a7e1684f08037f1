#include <troupe/actors/serving.h>

#include <troupe/ps/metrics/trace_flow.h>

namespace troupe {

Serving::Serving(ServerParts parts)
    : parts_(std::move(parts)),
      core_(parts_.options, std::move(parts_.shard), parts_.store),
      generation_(parts_.since) {}

Serving::~Serving() { parts_.transport->detach(parts_.options.self); }

bool Serving::take(const ps::EnvelopePtr& envelope, const caf::actor& self) {
  if (envelope->from.role == ps::Role::coordinator) {
    if (envelope->generation < generation_) return true;  // another has taken its place: its end is not the run's
    generation_ = envelope->generation;
  }
  if (std::holds_alternative<ps::Finish>(envelope->body)) return false;
  send(handle(*envelope));
  commit(self);
  return !core_.fenced();
}

// A push is an event of the trace: the arrow from the worker that sent it ends where the shard takes it.
ps::Outbox Serving::handle(const ps::Envelope& envelope) {
  const auto* push = std::get_if<ps::Push>(&envelope.body);
  if (!push || !parts_.track) return core_.handle(envelope);
  Span span(parts_.track, "apply", push->step, {"worker", envelope.from.index});
  span.event.args[2] = {"parcel", push->parcel};
  span.event.flow_in = ps::flow_id(ps::Flow::push, envelope.from.index, push->parcel, push->step);
  return core_.handle(envelope);
}

bool Serving::committed(const Status& status, const caf::actor& self) {
  send(core_.committed(status));
  commit(self);
  return !core_.fenced();
}

void Serving::tick(const caf::actor& self) {
  send(core_.tick());
  commit(self);
}

void Serving::send(ps::Outbox outbox) {
  for (ps::Envelope& envelope : outbox) parts_.transport->send(std::move(envelope));
}

void Serving::commit(const caf::actor& self) {
  if (!parts_.commits) {
    while (core_.begin_commit()) send(core_.committed(core_.store().commit()));
  } else if (core_.begin_commit()) {
    if (!commits_) commits_ = parts_.commits();
    commits_->submit([store = parts_.store, self] {
      caf::anon_send(self, std::make_shared<const ServerControl>(CommitDone{store->commit()}));
    });
  }
}

}  // namespace troupe
