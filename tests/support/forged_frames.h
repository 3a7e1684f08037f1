#pragma once
#include <capnp/serialize.h>
#include <wire/schema.capnp.h>
#include <xxhash.h>

#include <cstring>
#include <span>

#include <troupe/ps/wire/codec.h>

/// Frames as a peer with other ideas of the protocol could send them: wrong inside, whole outside.
namespace troupe::ps::test {

/// Makes the head's checksum right.
inline void seal(std::vector<std::byte>& head) {
  if (head.size() < sizeof(uint64_t)) return;
  const uint64_t sum = XXH3_64bits(head.data() + sizeof sum, head.size() - sizeof sum);
  std::memcpy(head.data(), &sum, sizeof sum);
}

/// The frames with their head changed by `change(wire::schema::Envelope::Builder)`, and sealed again.
template <class Change>
wire::Frames forged(wire::Frames frames, Change change) {
  std::vector<uint64_t> words(frames.head.size() / sizeof(uint64_t) - 1);
  std::memcpy(words.data(), frames.head.data() + sizeof(uint64_t), words.size() * sizeof(uint64_t));
  capnp::MallocMessageBuilder message;
  capnp::initMessageBuilderFromFlatArrayCopy({reinterpret_cast<const capnp::word*>(words.data()), words.size()},
                                             message);
  change(message.getRoot<wire::schema::Envelope>());
  const auto flat = capnp::messageToFlatArray(message);
  frames.head.resize(sizeof(uint64_t) + flat.asBytes().size());
  std::memcpy(frames.head.data() + sizeof(uint64_t), flat.asBytes().begin(), flat.asBytes().size());
  seal(frames.head);
  return frames;
}

/// The payloads as they would come from a socket: in other memory, `offset` bytes behind an alignment of 64.
inline std::vector<Tensor> received(const std::vector<Tensor>& sent, size_t offset = 0) {
  std::vector<Tensor> out;
  for (const Tensor& t : sent) {
    const auto bytes = static_cast<int64_t>(t.bytes());
    const Tensor memory = Tensor::empty(Shape{bytes + static_cast<int64_t>(offset)}, DType::u8);
    out.push_back(memory.view(static_cast<int64_t>(offset), Shape{bytes}));
    if (bytes > 0) std::memcpy(out.back().raw(), t.raw(), t.bytes());
  }
  return out;
}

}  // namespace troupe::ps::test
