#include "message_text.h"

#include <cstring>

#include <troupe/kernels/base/text.h>

namespace troupe::sim {
namespace {

/// Calls `field(name, number)` for what tells messages of one kind apart.
template <class F>
void visit_fields(const ps::Message& message, F&& field) {
  if (const auto* m = std::get_if<ps::Push>(&message))
    field("sequence", m->sequence), field("parcel", m->parcel), field("step", m->step), field("samples", m->samples),
        field("finite", m->finite);
  else if (const auto* m = std::get_if<ps::PushAck>(&message))
    field("sequence", m->sequence), field("parcel", m->parcel), field("step", m->step);
  else if (const auto* m = std::get_if<ps::Pull>(&message))
    field("parcel", m->parcel), field("step", m->step), field("ticket", m->ticket);
  else if (const auto* m = std::get_if<ps::PullReply>(&message))
    field("parcel", m->parcel), field("step", m->step), field("ticket", m->ticket), field("lag", m->lag);
  else if (const auto* m = std::get_if<ps::Refused>(&message))
    field("reason", static_cast<int>(m->reason)), field("sequence", m->sequence), field("parcel", m->parcel),
        field("step", m->step);
  else if (const auto* m = std::get_if<ps::Membership>(&message)) {
    field("generation", m->generation);
    for (const auto incarnation : m->workers) field("worker", incarnation);
    for (const auto incarnation : m->servers) field("server", incarnation);
    if (m->rebase) field("rebase", *m->rebase);
  } else if (const auto* m = std::get_if<ps::WorkRequest>(&message))
    field("number", m->number);
  else if (const auto* m = std::get_if<ps::Work>(&message))
    field("number", m->number), field("kind", static_cast<int>(m->kind)), field("step", m->step),
        field("epoch", m->range.epoch), field("begin", m->range.begin), field("count", m->range.count);
  else if (const auto* m = std::get_if<ps::WorkDone>(&message))
    field("number", m->number), field("kind", static_cast<int>(m->kind)), field("step", m->step),
        field("max_lag", m->max_lag);
  else if (const auto* m = std::get_if<ps::WorkDoneAck>(&message))
    field("number", m->number);
  else if (const auto* m = std::get_if<ps::Partial>(&message))
    field("step", m->step), field("finite", m->finite);
  else if (const auto* m = std::get_if<ps::Verdict>(&message))
    field("step", m->step), field("skip", m->skip);
  else if (const auto* m = std::get_if<ps::Snapshot>(&message))
    field("round", m->round);
  else if (const auto* m = std::get_if<ps::SnapshotReply>(&message))
    field("round", m->round);
  else if (const auto* m = std::get_if<ps::Install>(&message))
    field("round", m->round);
  else if (const auto* m = std::get_if<ps::InstallAck>(&message))
    field("round", m->round);
  else if (const auto* m = std::get_if<ps::StatsRequest>(&message))
    field("round", m->round);
  else if (const auto* m = std::get_if<ps::StatsReply>(&message))
    field("round", m->round);
}

const ps::Endpoint* subject(const ps::Message& message) {
  if (const auto* m = std::get_if<ps::Down>(&message)) return &m->who;
  if (const auto* m = std::get_if<ps::DownAck>(&message)) return &m->who;
  if (const auto* m = std::get_if<ps::Spawn>(&message)) return &m->who;
  if (const auto* m = std::get_if<ps::SpawnAck>(&message)) return &m->who;
  return nullptr;
}

class Hash {
 public:
  void add(uint64_t x) {
    value_ = (value_ ^ x) * 1099511628211;
    value_ ^= value_ >> 29;
  }
  void add(const ps::Endpoint& e) {
    add(static_cast<uint64_t>(e.role) << 48 | uint64_t{e.index} << 32 | e.incarnation);
  }
  void add(const Tensor& t) {
    for (const float f : t.span<float>()) {
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      add(uint64_t{bits});
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 1469598103934665603;
};

}  // namespace

std::string describe(const ps::Envelope& e) {
  std::string text = cat(e.from, " -> ", e.to, ", generation ", e.generation, ": ", ps::name_of(e.body));
  visit_fields(e.body, [&](const char* name, auto number) { text += cat(' ', name, ' ', number); });
  if (const ps::Endpoint* who = subject(e.body)) text += cat(' ', *who);
  if (const auto* refused = std::get_if<ps::Refused>(&e.body)) text += " (" + refused->detail + ")";
  if (const auto* down = std::get_if<ps::Down>(&e.body)) text += " (" + down->reason + ")";
  return text;
}

uint64_t hash_of(const ps::Envelope& e) {
  Hash hash;
  hash.add(e.from);
  hash.add(e.to);
  hash.add(e.generation);
  hash.add(e.body.index());
  visit_fields(e.body, [&](const char*, auto number) { hash.add(static_cast<uint64_t>(number)); });
  if (const ps::Endpoint* who = subject(e.body)) hash.add(*who);
  if (const auto* reply = std::get_if<ps::PullReply>(&e.body))
    for (const Tensor& t : reply->values) hash.add(t);
  return hash.value();
}

}  // namespace troupe::sim
