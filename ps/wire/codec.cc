#include <troupe/ps/wire/codec.h>

#include <capnp/serialize.h>
#include <kj/exception.h>
#include <kj/io.h>

#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include <troupe/kernels/base/check.h>
#include <troupe/ps/wire/internal/checksum.h>
#include <troupe/ps/wire/internal/messages.h>

namespace troupe::ps::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "payloads are the tensors' own bytes, little-endian");

constexpr size_t kSealBytes = sizeof(uint64_t);
// Most heads: no memory is taken for the builder, nor for an aligned copy.
constexpr size_t kScratchWords = 128;

// ---- out --------------------------------------------------------------------------------------------

void describe(const Tensor& tensor, uint32_t frame, bool checked, schema::TensorDescriptor::Builder out) {
  TROUPE_CHECK(tensor && tensor.device() == Device{}, "tensor ", frame, " of a message has no CPU memory");
  out.setBytes(tensor.bytes());
  out.setFrame(frame);
  out.setDtype(static_cast<schema::DType>(tensor.dtype()));
  if (checked) out.setChecksum(checksum_of({tensor.raw(), tensor.bytes()}));
  const auto dims = tensor.shape().span();
  if (dims.empty()) return;
  auto shape = out.initShape(static_cast<unsigned>(dims.size()));
  for (unsigned i = 0; i < dims.size(); ++i) shape.set(i, dims[i]);
}

// The bytes that a message is written to, after room for the seal.
class HeadStream : public kj::OutputStream {
 public:
  explicit HeadStream(size_t bytes) {
    head_.reserve(kSealBytes + bytes);
    head_.resize(kSealBytes);
  }
  void write(const void* bytes, size_t count) override {
    const auto* from = static_cast<const std::byte*>(bytes);
    head_.insert(head_.end(), from, from + count);
  }
  std::vector<std::byte> sealed() && {
    const uint64_t seal = checksum_of(std::span(head_).subspan(kSealBytes));
    std::memcpy(head_.data(), &seal, kSealBytes);
    return std::move(head_);
  }

 private:
  std::vector<std::byte> head_;
};

// ---- in ---------------------------------------------------------------------------------------------

// The head without its seal, as words: in place where they are aligned.
class HeadWords {
 public:
  explicit HeadWords(std::span<const std::byte> head) {
    const std::span<const std::byte> body = head.subspan(kSealBytes);
    count_ = body.size() / sizeof(capnp::word);
    if (reinterpret_cast<uintptr_t>(body.data()) % alignof(capnp::word) == 0) {
      words_ = reinterpret_cast<const capnp::word*>(body.data());
      return;
    }
    capnp::word* copy = scratch_;
    if (count_ > kScratchWords) {
      memory_ = std::make_unique_for_overwrite<capnp::word[]>(count_);
      copy = memory_.get();
    }
    std::memcpy(copy, body.data(), body.size());
    words_ = copy;
  }
  HeadWords(const HeadWords&) = delete;
  HeadWords& operator=(const HeadWords&) = delete;

  kj::ArrayPtr<const capnp::word> array() const { return {words_, count_}; }

 private:
  capnp::word scratch_[kScratchWords];
  std::unique_ptr<capnp::word[]> memory_;
  const capnp::word* words_ = nullptr;
  size_t count_ = 0;
};

void check_seal(std::span<const std::byte> head, const DecodeLimits& limits) {
  if (head.size() > limits.max_head_bytes)
    refuse("the head has ", head.size(), " bytes, at most ", limits.max_head_bytes, " are allowed");
  if (head.size() < kSealBytes + sizeof(capnp::word) || head.size() % sizeof(capnp::word) != 0)
    refuse("the head has ", head.size(), " bytes, which is no whole message");
  uint64_t seal = 0;
  std::memcpy(&seal, head.data(), kSealBytes);
  if (seal != checksum_of(head.subspan(kSealBytes))) refuse("the head's checksum is wrong");
}

size_t bytes_of(const Tensor& payload) { return payload ? payload.bytes() : 0; }

// What the descriptor says of its payload; nothing has been taken or read yet.
struct Described {
  Shape shape;
  DType dtype = DType::f32;
  uint32_t frame = 0;
  uint64_t checksum = 0;
};

Described check_descriptor(schema::TensorDescriptor::Reader in, const std::vector<Tensor>& payloads,
                           std::vector<bool>& named) {
  Described out{shape_of(in.getShape(), "tensor"), enumerant(in.getDtype(), DType::bf16, "dtype"), in.getFrame(),
                in.getChecksum()};
  if (out.frame >= payloads.size()) refuse("a tensor is in payload ", out.frame, " of ", payloads.size());
  if (named[out.frame]) refuse("two tensors are in payload ", out.frame);
  named[out.frame] = true;
  // shape_of keeps the product below 2^60, so that 8 bytes an element still fit.
  const uint64_t bytes = static_cast<uint64_t>(out.shape.count()) * size_of(out.dtype);
  if (bytes != in.getBytes())
    refuse("tensor ", out.shape, " ", name_of(out.dtype), " has ", bytes, " bytes, not ", in.getBytes());
  if (bytes != bytes_of(payloads[out.frame]))
    refuse("payload ", out.frame, " has ", bytes_of(payloads[out.frame]), " bytes, its tensor ", bytes);
  return out;
}

// A view where the memory is aligned for the elements: kernels ask for no more, and libzmq gives 8 bytes from 8 KB up.
Tensor tensor_in(const Tensor& payload, const Described& is, bool may_change) {
  if (bytes_of(payload) == 0) return Tensor::empty(is.shape, is.dtype);
  const bool in_place = !(may_change && is.dtype == DType::i32);
  if (in_place && reinterpret_cast<uintptr_t>(payload.raw()) % size_of(is.dtype) == 0)
    return Tensor(payload.buffer(), payload.offset_bytes(), is.shape, is.dtype);
  Tensor copy = Tensor::empty(is.shape, is.dtype);
  std::memcpy(copy.raw(), payload.raw(), payload.bytes());
  return copy;
}

std::vector<Tensor> tensors_of(schema::Envelope::Reader in, const std::vector<Tensor>& payloads,
                               const DecodeLimits& limits) {
  size_t total = 0;
  for (const Tensor& payload : payloads)
    if (__builtin_add_overflow(total, bytes_of(payload), &total) || total > limits.max_payload_bytes)
      refuse("the payloads have more than the ", limits.max_payload_bytes, " bytes that are allowed");
  const auto descriptors = in.getTensors();
  if (descriptors.size() != payloads.size())
    refuse(descriptors.size(), " tensors are described, ", payloads.size(), " payloads came");
  if (limits.check_payloads && !in.getChecked() && !payloads.empty()) refuse("the payloads have no checksums");

  std::vector<bool> named(payloads.size(), false);
  std::vector<Described> described;
  described.reserve(payloads.size());
  for (const auto descriptor : descriptors) described.push_back(check_descriptor(descriptor, payloads, named));

  std::vector<Tensor> tensors;
  tensors.reserve(payloads.size());
  for (const Described& is : described) {
    const Tensor& payload = payloads[is.frame];
    const std::span<const std::byte> bytes(payload ? payload.raw() : nullptr, bytes_of(payload));
    if (limits.check_payloads && is.checksum != checksum_of(bytes))
      refuse("the checksum of payload ", is.frame, " is wrong");
    tensors.push_back(tensor_in(payload, is, limits.may_change));
  }
  return tensors;
}

Envelope read_envelope(std::span<const std::byte> head, const std::vector<Tensor>& payloads,
                       const DecodeLimits& limits) {
  check_seal(head, limits);
  const HeadWords words(head);
  // Every object is read once; whatever points at one object many times runs out of this.
  const capnp::ReaderOptions options{.traversalLimitInWords = 2 * words.array().size() + 64, .nestingLimit = 32};
  capnp::FlatArrayMessageReader message(words.array(), options);
  if (message.getEnd() != words.array().end()) refuse("bytes follow the message in its head");
  const auto root = message.getRoot<schema::Envelope>();
  if (root.getProtocol() != kProtocolVersion)
    refuse("protocol version ", root.getProtocol(), ", this build speaks ", kProtocolVersion,
           "; start all processes from one build");
  if (limits.run != 0 && root.getRun() != 0 && root.getRun() != limits.run)
    refuse("it belongs to run ", root.getRun(), ", this is run ", limits.run);
  Reader reader(tensors_of(root, payloads, limits));
  Envelope envelope;
  read(root, envelope, reader);
  reader.finish();
  return envelope;
}

}  // namespace

Frames encode(const Envelope& envelope, RunId run, Checksums checksums) {
  capnp::word scratch[kScratchWords]{};  // Cap'n Proto wants it zeroed
  capnp::MallocMessageBuilder message(kj::arrayPtr(scratch, kScratchWords));
  auto root = message.initRoot<schema::Envelope>();
  root.setProtocol(kProtocolVersion);
  root.setRun(run);
  Writer writer;
  write(envelope, root, writer);
  const std::vector<Tensor>& tensors = writer.tensors();
  if (!tensors.empty()) {
    root.setChecked(checksums == Checksums::with);
    auto out = root.initTensors(static_cast<unsigned>(tensors.size()));
    for (unsigned i = 0; i < tensors.size(); ++i) describe(tensors[i], i, checksums == Checksums::with, out[i]);
  }
  HeadStream stream(capnp::computeSerializedSizeInWords(message) * sizeof(capnp::word));
  capnp::writeMessage(stream, message);
  return {std::move(stream).sealed(), writer.take()};
}

Result<Envelope> decode(std::span<const std::byte> head, std::vector<Tensor> payloads, const DecodeLimits& limits) {
  try {
    return read_envelope(head, payloads, limits);
  } catch (const Malformed& malformed) {
    return fail(ErrorKind::corrupt, "a message was refused: " + malformed.what);
  } catch (const kj::Exception& exception) {
    return fail(ErrorKind::corrupt,
                cat("a message was refused: its head is no Cap'n Proto message: ", exception.getDescription().cStr()));
  }
}

}  // namespace troupe::ps::wire
