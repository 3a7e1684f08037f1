#include <troupe/ps/transport/internal/urgency.h>

#include <limits>

namespace troupe::ps {
namespace {

constexpr uint32_t kControl = 0;
constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();

uint32_t of_parcel(ParcelId parcel) { return parcel < kLast - 2 ? parcel + 1 : kLast - 1; }

struct Urgency {
  uint32_t operator()(const Push& push) const { return push.gradients.empty() ? kControl : of_parcel(push.parcel); }
  uint32_t operator()(const PullReply& reply) const { return of_parcel(reply.parcel); }
  uint32_t operator()(const Activation&) const { return of_parcel(0); }
  uint32_t operator()(const Replicate& replicate) const {
    return replicate.event ? urgency_of(replicate.event->body) : kLast;
  }
  uint32_t operator()(const Spawn& spawn) const { return spawn.image ? kLast : kControl; }
  uint32_t operator()(const SnapshotReply&) const { return kLast; }
  uint32_t operator()(const Install&) const { return kLast; }
  uint32_t operator()(const auto&) const { return kControl; }
};

}  // namespace

uint32_t urgency_of(const Message& message) { return std::visit(Urgency{}, message); }

}  // namespace troupe::ps
