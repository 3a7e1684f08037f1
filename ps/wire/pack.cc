// A block, little-endian:
//
//   u64  XXH3-64 of all that follows
//   u32  payloads
//   u32  bytes of the head
//   u64  bytes of each payload
//   ...  the head, the payloads
#include <cstring>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/wire/codec.h>
#include <troupe/ps/wire/internal/checksum.h>

namespace troupe::ps::wire {
namespace {

constexpr size_t kFixedBytes = 16;

template <class T>
void put(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

template <class T>
T get(std::span<const std::byte> in, size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

tl::unexpected<Error> torn(const std::string& what) { return fail(ErrorKind::corrupt, "a block was refused: " + what); }

}  // namespace

std::vector<std::byte> pack(const Envelope& envelope, RunId run) {
  const Frames frames = encode(envelope, run, Checksums::without);
  size_t total = kFixedBytes + frames.head.size();
  for (const Tensor& payload : frames.payloads) total += sizeof(uint64_t) + payload.bytes();
  std::vector<std::byte> out;
  out.reserve(total);
  put<uint64_t>(out, 0);
  put(out, static_cast<uint32_t>(frames.payloads.size()));
  put(out, static_cast<uint32_t>(frames.head.size()));
  for (const Tensor& payload : frames.payloads) put<uint64_t>(out, payload.bytes());
  out.insert(out.end(), frames.head.begin(), frames.head.end());
  for (const Tensor& payload : frames.payloads) out.insert(out.end(), payload.raw(), payload.raw() + payload.bytes());
  const uint64_t sum = checksum_of(std::span(out).subspan(sizeof(uint64_t)));
  std::memcpy(out.data(), &sum, sizeof sum);
  return out;
}

Result<Envelope> unpack(std::span<const std::byte> block, const DecodeLimits& limits) {
  if (block.size() < kFixedBytes) return torn(cat("it has ", block.size(), " bytes"));
  if (get<uint64_t>(block, 0) != checksum_of(block.subspan(sizeof(uint64_t)))) return torn("its checksum is wrong");
  const size_t count = get<uint32_t>(block, 8), head_bytes = get<uint32_t>(block, 12);
  const size_t lengths_end = kFixedBytes + count * sizeof(uint64_t);
  if (lengths_end + head_bytes > block.size())
    return torn(cat(count, " payloads and a head of ", head_bytes, " bytes do not fit in ", block.size()));
  const auto head = block.subspan(lengths_end, head_bytes);
  auto rest = block.subspan(lengths_end + head_bytes);
  if (rest.size() > limits.max_payload_bytes)
    return torn(cat("its payloads have ", rest.size(), " bytes, at most ", limits.max_payload_bytes, " are allowed"));
  std::vector<Tensor> payloads;
  payloads.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto bytes = get<uint64_t>(block, kFixedBytes + i * sizeof(uint64_t));
    if (bytes > rest.size()) return torn(cat("payload ", i, " of ", bytes, " bytes does not fit in ", rest.size()));
    payloads.push_back(Tensor::empty(Shape{static_cast<int64_t>(bytes)}, DType::u8));
    if (bytes > 0) std::memcpy(payloads.back().raw(), rest.data(), bytes);
    rest = rest.subspan(bytes);
  }
  if (!rest.empty()) return torn(cat(rest.size(), " bytes follow the last payload"));
  DecodeLimits inner = limits;
  inner.check_payloads = false;  // the block's checksum covers them
  return decode(head, std::move(payloads), inner);
}

}  // namespace troupe::ps::wire
