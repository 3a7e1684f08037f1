#include <troupe/ps/transport/internal/shared_frames.h>

#include <cstring>

namespace troupe::ps {
namespace {

// As the number of segments in a Cap'n Proto stream it would be 4 billion and one.
constexpr uint32_t kMark = 0xffffffff;

struct Place {
  int32_t pid, fd;
  uint64_t token, bytes;
};
struct Bytes {
  uint32_t mark, kind;
  Place ring, doorbell, heap;
};
static_assert(sizeof(Bytes) == kSharedFrameBytes);

Place place_of(const SharedOffer& offer) { return {offer.pid, offer.fd, offer.token, offer.bytes}; }
SharedOffer offer_of(const Place& place) { return {place.pid, place.fd, place.token, place.bytes}; }

}  // namespace

std::vector<std::byte> to_bytes(const SharedFrame& frame) {
  const Bytes bytes{kMark, static_cast<uint32_t>(frame.kind), place_of(frame.ring), place_of(frame.doorbell),
                    place_of(frame.heap)};
  const auto view = std::as_bytes(std::span(&bytes, 1));
  return {view.begin(), view.end()};
}

std::optional<SharedFrame> shared_frame_in(std::span<const std::byte> head) {
  Bytes bytes;
  if (head.size() != sizeof bytes) return std::nullopt;
  std::memcpy(&bytes, head.data(), sizeof bytes);
  if (bytes.mark != kMark || bytes.kind < 1 || bytes.kind > 3) return std::nullopt;
  return SharedFrame{static_cast<SharedFrame::Kind>(bytes.kind), offer_of(bytes.ring), offer_of(bytes.doorbell),
                     offer_of(bytes.heap)};
}

}  // namespace troupe::ps
