#pragma once
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <troupe/kernels/base/check.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/tensor/tensor.h>
#include <troupe/ps/transport/internal/shared_reader.h>
#include <troupe/ps/transport/internal/shared_sender.h>

namespace troupe::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(uint64_t seed, size_t count) {
  Random random(seed);
  Bytes bytes(count);
  for (size_t at = 0; at < count; at += 8) {
    const uint64_t bits = random.bits64();
    std::memcpy(&bytes[at], &bits, std::min<size_t>(8, count - at));
  }
  return bytes;
}

inline Tensor u8(const Bytes& bytes) {
  Tensor t = Tensor::empty({static_cast<int64_t>(bytes.size())}, DType::u8);
  if (!bytes.empty()) std::memcpy(t.raw(), bytes.data(), bytes.size());
  return t;
}

inline Bytes bytes_of(const Tensor& t) { return {t.raw(), t.raw() + t.bytes()}; }

/// One message as it came in.
struct Received {
  Bytes head;
  std::vector<Tensor> payloads;
};

/// Both ends in one process, each with a mapping of its own.
struct SharedEnds {
  explicit SharedEnds(uint64_t arena_bytes = 1 << 20)
      : sender(ps::SharedSender::create(arena_bytes).value()),
        receiver(ps::SharedReceiver::open(sender->offer(), arena_bytes).value()) {
    sender->set_doorbell(ps::Doorbell::open(bell.offer()).value());
  }

  bool send(const Bytes& head, const std::vector<Tensor>& payloads = {}) { return sender->send(head, payloads); }
  Result<bool> poll(Received& into) {
    return receiver->receive([&](std::span<const std::byte> head, std::vector<Tensor> payloads) {
      into = {{head.begin(), head.end()}, std::move(payloads)};
    });
  }
  /// The next message, which must be there.
  Received receive() {
    Received message;
    const auto result = poll(message);
    TROUPE_CHECK(result && *result, result ? "no message" : result.error().message);
    return message;
  }

  ps::Doorbell bell = ps::Doorbell::create().value();
  std::shared_ptr<ps::SharedSender> sender;
  std::unique_ptr<ps::SharedReceiver> receiver;
};

/// Values from one process to another that was forked, through a pipe.
class Mail {
 public:
  Mail() { TROUPE_CHECK(::pipe(ends_) == 0, "pipe"); }
  ~Mail() { ::close(ends_[0]), ::close(ends_[1]); }
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  template <class T>
  void put(const T& value) {
    TROUPE_CHECK(::write(ends_[1], &value, sizeof value) == sizeof value, sizeof value, " bytes");
  }
  template <class T>
  T take() {
    T value;
    TROUPE_CHECK(::read(ends_[0], &value, sizeof value) == sizeof value, sizeof value, " bytes");
    return value;
  }

 private:
  int ends_[2];
};

/// Pieces of shared memory that this process maps; of one that is in part only read here, its beginning counts.
inline int mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(" 00000000 ") != std::string::npos && line.find("memfd:troupe") != std::string::npos;
  return count;
}

}  // namespace troupe::test
