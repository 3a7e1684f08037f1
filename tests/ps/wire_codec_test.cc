#include <boost/test/unit_test.hpp>

#include <tests/support/forged_frames.h>
#include <tests/support/random_message.h>
#include <troupe/ps/wire/codec.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::wire;
using test::RandomMessages;
using test::received;

BOOST_AUTO_TEST_SUITE(wire_codec)

namespace {

constexpr RunId kRun = 0x5eed;

Envelope decoded(const Frames& frames, size_t offset = 0) {
  auto out = decode(frames.head, received(frames.payloads, offset), {.run = kRun});
  BOOST_REQUIRE_MESSAGE(out, out.error().message);
  return *out;
}

Push push_of(std::vector<Tensor> gradients) { return {1, 2, 3, 4, 5, std::move(gradients), 1, true}; }

}  // namespace

BOOST_AUTO_TEST_CASE(EveryKindOfMessageComesBackAsItWas) {
  RandomMessages messages(1);
  for (size_t kind = 0; kind < RandomMessages::kKinds; ++kind)
    for (int i = 0; i < 50; ++i) {
      const Envelope sent = messages.next(kind);
      const Envelope got = decoded(encode(sent, kRun), i % 9);
      BOOST_REQUIRE_MESSAGE(test::same(sent, got), name_of(sent.body) << " number " << i);
    }
}

BOOST_AUTO_TEST_CASE(EveryKindOfMessageComesBackFromABlock) {
  RandomMessages messages(2);
  for (size_t kind = 0; kind < RandomMessages::kKinds; ++kind)
    for (int i = 0; i < 10; ++i) {
      const Envelope sent = messages.next(kind);
      const auto got = unpack(pack(sent, kRun), {.run = kRun});
      BOOST_REQUIRE_MESSAGE(got, name_of(sent.body) << ": " << got.error().message);
      BOOST_REQUIRE_MESSAGE(test::same(sent, *got), name_of(sent.body) << " number " << i);
    }
}

BOOST_AUTO_TEST_CASE(PayloadsAreTheTensorsThemselves) {
  const Tensor gradient = Tensor::zeros(Shape{100});
  const Frames frames = encode({{}, {}, 1, push_of({gradient})}, kRun);
  BOOST_REQUIRE(frames.payloads.size() == 1u);
  BOOST_TEST(frames.payloads[0].raw() == gradient.raw());
}

BOOST_AUTO_TEST_CASE(AlignedPayloadsAreReadWhereTheyCame) {
  const Frames frames = encode({{}, {}, 1, push_of({Tensor::zeros(Shape{100})})}, kRun);
  for (const size_t offset : {0, 4, 8}) {
    const auto payloads = received(frames.payloads, offset);
    const auto got = decode(frames.head, payloads, {});
    BOOST_REQUIRE(got);
    BOOST_TEST(std::get<Push>(got->body).gradients[0].raw() == payloads[0].raw());
  }
}

// A stage reads a megabyte of activations where the transport has put it, and the transport sends it from where the
// stage before has computed it: between two stages in two processes it is moved by the transport alone.
BOOST_AUTO_TEST_CASE(AnActivationIsCopiedByNobodyButTheTransport) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor outputs = Tensor::zeros({4, 1 << 16}, dtype);
    const Frames frames = encode(
        {{}, {}, 1, Activation{Activation::Kind::forward, 3, 1, 1, {0, 4, 4}, {outputs}}}, kRun);
    BOOST_REQUIRE(frames.payloads.size() == 1u);
    BOOST_TEST(frames.payloads[0].raw() == outputs.raw());
    const auto payloads = received(frames.payloads, 0);
    const auto got = decode(frames.head, payloads, {});
    BOOST_REQUIRE(got);
    const Tensor& input = std::get<Activation>(got->body).tensors.at(0);
    BOOST_TEST(input.raw() == payloads[0].raw());
    BOOST_TEST((input.shape() == outputs.shape() && input.dtype() == dtype));
  }
}

BOOST_AUTO_TEST_CASE(PayloadsThatFloatsCannotBeReadFromAreCopied) {
  const Frames frames = encode({{}, {}, 1, push_of({Tensor::zeros(Shape{100})})}, kRun);
  for (const size_t offset : {1, 2, 3, 7}) {
    const auto got = decode(frames.head, received(frames.payloads, offset), {});
    BOOST_REQUIRE(got);
    BOOST_TEST(reinterpret_cast<uintptr_t>(std::get<Push>(got->body).gradients[0].raw()) % Buffer::kAlignment == 0u);
  }
}

BOOST_AUTO_TEST_CASE(AHeadMayLieAnywhereInMemory) {
  RandomMessages messages(3);
  for (int i = 0; i < 100; ++i) {
    const Envelope sent = messages.next();
    const Frames frames = encode(sent, kRun);
    std::vector<std::byte> memory(frames.head.size() + 8);
    std::memcpy(memory.data() + i % 8, frames.head.data(), frames.head.size());
    const auto got = decode(std::span(memory).subspan(i % 8, frames.head.size()), received(frames.payloads), {});
    BOOST_REQUIRE(got);
    BOOST_TEST(test::same(sent, *got));
  }
}

// A sender of the same host may write what it has sent: a row number that was checked must not become another.
BOOST_AUTO_TEST_CASE(RowNumbersThatTheirSenderMayStillWriteAreCopied) {
  Push push = push_of({Tensor::zeros(Shape{100})});
  push.rows = Tensor::from<int32_t>(std::array{3, 5}, {2});
  const Frames frames = encode({{}, {}, 1, push}, kRun, Checksums::without);
  std::vector<Tensor> payloads = received(frames.payloads);
  const auto got = decode(frames.head, payloads, {.check_payloads = false, .may_change = true});
  BOOST_REQUIRE(got);
  for (Tensor& payload : payloads) std::memset(payload.raw(), 0x7f, payload.bytes());
  const auto& decoded = std::get<Push>(got->body);
  BOOST_TEST(decoded.rows.span<int32_t>()[0] == 3);
  BOOST_TEST(decoded.rows.span<int32_t>()[1] == 5);
  BOOST_TEST(decoded.gradients[0].span<float>()[0] != 0);  // and floats are read where they are
}

BOOST_AUTO_TEST_CASE(AnAcknowledgementFitsInTwoCacheLines) {
  const Frames frames = encode({{Role::server, 1, 1}, {Role::worker, 2, 3}, 4, PushAck{5, 6, 7}}, kRun);
  BOOST_TEST(frames.head.size() <= 128u);
  BOOST_TEST(frames.payloads.empty());
}

BOOST_AUTO_TEST_CASE(WithoutChecksumsNothingIsReadBeforeItIsUsed) {
  const Frames frames = encode({{}, {}, 1, push_of({Tensor::zeros(Shape{100})})}, kRun, Checksums::without);
  auto payloads = received(frames.payloads);
  payloads[0].raw()[0] = std::byte{1};
  BOOST_TEST(decode(frames.head, payloads, {.check_payloads = false}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
