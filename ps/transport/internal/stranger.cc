#include <troupe/ps/transport/internal/stranger.h>

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <wire/schema.capnp.h>
#include <xxhash.h>

#include <cstring>
#include <vector>

namespace troupe::ps {
namespace {

namespace schema = wire::schema;

constexpr size_t kSealBytes = sizeof(uint64_t);
constexpr size_t kMaxHeadBytes = 64 << 10;

template <class Group>
Endpoint endpoint_of(Group group) {
  return {static_cast<Role>(group.getRole()), group.getIndex(), group.getIncarnation()};
}

template <class Group>
void set_endpoint(Group group, const Endpoint& endpoint) {
  group.setRole(static_cast<schema::Role>(endpoint.role));
  group.setIndex(endpoint.index);
  group.setIncarnation(endpoint.incarnation);
}

}  // namespace

std::optional<Stranger> stranger_in(std::span<const std::byte> head) {
  if (head.size() <= kSealBytes || head.size() > kMaxHeadBytes) return std::nullopt;
  const auto body = head.subspan(kSealBytes);
  uint64_t seal = 0;
  std::memcpy(&seal, head.data(), kSealBytes);
  if (seal != XXH3_64bits(body.data(), body.size())) return std::nullopt;
  std::vector<capnp::word> words(body.size() / sizeof(capnp::word));
  std::memcpy(words.data(), body.data(), words.size() * sizeof(capnp::word));
  try {
    capnp::FlatArrayMessageReader reader({words.data(), words.size()});
    const auto envelope = reader.getRoot<schema::Envelope>();
    return Stranger{envelope.getProtocol(), envelope.getRun(), endpoint_of(envelope.getFrom()),
                    endpoint_of(envelope.getTo()), envelope.getBody().isHello()};
  } catch (const kj::Exception&) {
    return std::nullopt;
  }
}

wire::Frames rejection(const Stranger& stranger, const std::string& reason) {
  capnp::MallocMessageBuilder builder;
  auto envelope = builder.initRoot<schema::Envelope>();
  envelope.setProtocol(stranger.protocol);
  envelope.setRun(stranger.run);
  set_endpoint(envelope.getFrom(), stranger.to);
  set_endpoint(envelope.getTo(), stranger.from);
  envelope.setChecked(true);
  envelope.getBody().initRejected().setReason(reason);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  wire::Frames frames;
  frames.head.resize(kSealBytes + bytes.size());
  const uint64_t seal = XXH3_64bits(bytes.begin(), bytes.size());
  std::memcpy(frames.head.data(), &seal, kSealBytes);
  std::memcpy(frames.head.data() + kSealBytes, bytes.begin(), bytes.size());
  return frames;
}

}  // namespace troupe::ps
