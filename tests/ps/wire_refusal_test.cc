#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/forged_frames.h>
#include <tests/support/random_message.h>
#include <troupe/ps/param/layout.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::wire;
using test::forged;

BOOST_AUTO_TEST_SUITE(wire_refusal)

namespace {

constexpr RunId kRun = 0x5eed;
const Endpoint kWorker{Role::worker, 1, 1}, kServer{Role::server, 0, 1};

Envelope envelope_of(Message body) { return {kWorker, kServer, 1, std::move(body)}; }

Frames frames_of(Message body) { return encode(envelope_of(std::move(body)), kRun); }

Tensor floats(Shape shape) { return Tensor::zeros(shape); }

Frames push(int gradients = 1) {
  Push push{1, 2, 3, 4, 5};
  for (int i = 0; i < gradients; ++i) push.gradients.push_back(floats({4}));
  return frames_of(std::move(push));
}

Membership membership() {
  std::vector<LayerSpec> layers = {{"fc1", 40, {{"fc1.weight", {4, 8}, 0}, {"fc1.bias", {8}, 32, ParamKind::bias}}},
                                   {"fc2", 8, {{"fc2.weight", {8}, 0}}}};
  Membership m{3, {1, 1}, {1, 1}, nullptr, 0};
  m.layout = std::make_shared<Layout>(
      make_layout(std::move(layers), {{}, {Mode::ssp, 2}}, {.servers = 2, .slice_bytes = 64, .fuse_bytes = 0}));
  return m;
}

ShardImage image() {
  ShardImage image;
  image.membership = membership();
  return image;
}

/// What the receiver of `kRun` answers; "" where it takes the message.
std::string refusal(const Frames& frames, DecodeLimits limits = {.run = kRun}) {
  const auto got = decode(frames.head, test::received(frames.payloads), limits);
  return got ? "" : got.error().message;
}

template <class Change>
std::string refusal_of(const Frames& frames, Change change) {
  return refusal(forged(frames, change));
}

bool holds(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE("\"" << text << "\" does not hold \"" << part << '"');
  return false;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

}  // namespace

// ---- the head ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(NothingIsNoMessage) { BOOST_TEST(holds(refusal({}), "no whole message")); }

BOOST_AUTO_TEST_CASE(APeerThatSpeaksSomethingElseIsRefused) {
  Frames frames;
  for (const char c : std::string_view("GET / HTTP/1.1\r\nHost: here\r\n\r\n, and some more"))
    frames.head.push_back(std::byte(c));
  frames.head.resize(48);
  BOOST_TEST(holds(refusal(frames), "the head's checksum is wrong"));
}

BOOST_AUTO_TEST_CASE(AHeadThatWasCutShortIsRefusedAtEveryLength) {
  const Frames whole = push(2);
  for (size_t size = 0; size < whole.head.size(); ++size) {
    Frames cut = whole;
    cut.head.resize(size);
    BOOST_TEST(refusal(cut) != "");
    test::seal(cut.head);
    BOOST_TEST(refusal(cut) != "", "resealed at " << size);
  }
}

BOOST_AUTO_TEST_CASE(EveryBitOfAHeadIsChecked) {
  const Frames whole = push();
  for (size_t bit = 0; bit < whole.head.size() * 8; ++bit) {
    Frames flipped = whole;
    flipped.head[bit / 8] ^= std::byte(1 << bit % 8);
    BOOST_TEST(refusal(flipped) != "", "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(WordsBehindTheMessageAreRefused) {
  Frames frames = push();
  frames.head.resize(frames.head.size() + 8);
  test::seal(frames.head);
  BOOST_TEST(holds(refusal(frames), "bytes follow the message"));
}

BOOST_AUTO_TEST_CASE(AHeadOverTheLimitIsRefusedUnread) {
  Frames frames = frames_of(StatusReply{std::string(1000, 'x')});
  BOOST_TEST(holds(refusal(frames, {.max_head_bytes = 1000}), "at most 1000 are allowed"));
}

BOOST_AUTO_TEST_CASE(AnotherProtocolVersionIsNamed) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.setProtocol(2); }), "protocol version 2, this build speaks 1"));
}

BOOST_AUTO_TEST_CASE(AnotherRunsMessageIsRefused) {
  BOOST_TEST(holds(refusal(encode(envelope_of(Pull{}), 7)), "it belongs to run 7"));
}

BOOST_AUTO_TEST_CASE(WhoHasNoRunYetIsHeard) { BOOST_TEST(refusal(encode(envelope_of(Hello{}), 0)) == ""); }

BOOST_AUTO_TEST_CASE(AnUnknownKindOfMessageIsNamed) {
  Frames frames = push();
  const uint16_t kind = 99;
  // Behind checksum, segment table, root pointer and five words of the envelope (`capnp compile -ocapnp` shows it).
  const size_t tag = 8 + 8 + 8 + 40;
  std::memcpy(frames.head.data() + tag, &kind, sizeof kind);
  test::seal(frames.head);
  BOOST_TEST(holds(refusal(frames), "message kind 99 is unknown"));
}

BOOST_AUTO_TEST_CASE(AnUnknownRoleIsNamed) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getFrom().setRole(schema::Role(6)); }), "sender's role 6"));
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getTo().setRole(schema::Role(9)); }), "receiver's role 9"));
}

BOOST_AUTO_TEST_CASE(ManyPointersAtOneObjectAreRefused) {
  // One name of 1000 bytes, pointed at by 200 layers.
  Ready ready;
  ready.layers.resize(200);
  ready.layers[0].name.assign(1000, 'x');
  const auto text = [&](auto e) {
    auto layers = e.getBody().getReady().getLayers();
    const auto* first = reinterpret_cast<const uint64_t*>(layers[0].getName().begin());
    for (unsigned i = 1; i < layers.size(); ++i) {
      // A list pointer: offset from the word after itself, and what the first one says of size and length.
      auto* pointer = reinterpret_cast<uint64_t*>(capnp::AnyStruct::Builder(layers[i]).getDataSection().end());
      const auto offset = static_cast<uint32_t>(first - (pointer + 1));
      *pointer = (uint64_t{1001} << 35) | (uint64_t{2} << 32) | (offset << 2) | 1;
    }
  };
  BOOST_TEST(holds(refusal_of(frames_of(ready), text), "limit"));
}

BOOST_AUTO_TEST_CASE(AListOfAMillionNothingsIsRefused) {
  const auto declare = [](auto e) {
    auto orphans = capnp::Orphanage::getForMessageContaining(e);
    auto body = capnp::AnyStruct::Builder(e.getBody().getSnapshotReply());
    body.getPointerSection()[0].adopt(orphans.template newOrphan<capnp::List<schema::Finish>>(1 << 20));
  };
  BOOST_TEST(holds(refusal_of(frames_of(SnapshotReply{}), declare), "limit"));
}

// ---- tensors ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AMissingPayloadIsCounted) {
  Frames frames = push(2);
  frames.payloads.pop_back();
  BOOST_TEST(holds(refusal(frames), "2 tensors are described, 1 payloads came"));
}

BOOST_AUTO_TEST_CASE(APayloadTooManyIsCounted) {
  Frames frames = push();
  frames.payloads.push_back(floats({4}));
  BOOST_TEST(holds(refusal(frames), "1 tensors are described, 2 payloads came"));
}

BOOST_AUTO_TEST_CASE(APayloadLongerThanItDeclaresIsRefused) {
  Frames frames = push();
  frames.payloads[0] = floats({5});
  BOOST_TEST(holds(refusal(frames), "payload 0 has 20 bytes, its tensor 16"));
}

BOOST_AUTO_TEST_CASE(APayloadShorterThanItDeclaresIsRefused) {
  Frames frames = push();
  frames.payloads[0] = floats({3});
  BOOST_TEST(holds(refusal(frames), "payload 0 has 12 bytes, its tensor 16"));
}

BOOST_AUTO_TEST_CASE(AMissingPayloadsMemoryIsNoMemory) {
  Frames frames = push();
  const auto got = decode(frames.head, std::vector<Tensor>(1), {});
  BOOST_REQUIRE(!got);
  BOOST_TEST(holds(got.error().message, "payload 0 has 0 bytes, its tensor 16"));
}

BOOST_AUTO_TEST_CASE(PayloadsOverTheLimitAreRefusedUnread) {
  BOOST_TEST(holds(refusal(push(3), {.max_payload_bytes = 40}), "more than the 40 bytes that are allowed"));
}

BOOST_AUTO_TEST_CASE(ADescriptorThatContradictsItselfIsRefused) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getTensors()[0].setBytes(20); }), "has 16 bytes, not 20"));
}

BOOST_AUTO_TEST_CASE(AShapeWhoseProductOverflowsIsRefused) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{1ll << 32, 1ll << 32}, {kFar, 2}, {0, kFar, kFar}, {kFar}}) {
    const auto shape = [&](auto e) {
      auto out = e.getTensors()[0].initShape(static_cast<unsigned>(dims.size()));
      for (unsigned i = 0; i < dims.size(); ++i) out.set(i, dims[i]);
    };
    BOOST_TEST(holds(refusal_of(push(), shape), "dimensions multiply to more than"));
  }
}

BOOST_AUTO_TEST_CASE(ANegativeDimensionIsRefused) {
  const auto shape = [](auto e) {
    auto out = e.getTensors()[0].initShape(2);
    out.set(0, -2), out.set(1, -2);
  };
  BOOST_TEST(holds(refusal_of(push(), shape), "dimension 0 is -2"));
}

BOOST_AUTO_TEST_CASE(SevenDimensionsAreRefused) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getTensors()[0].initShape(7); }), "7 dimensions, at most 6"));
}

BOOST_AUTO_TEST_CASE(AnUnknownElementTypeIsNamed) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getTensors()[0].setDtype(schema::DType(6)); }), "dtype 6"));
}

BOOST_AUTO_TEST_CASE(TwoTensorsInOnePayloadAreRefused) {
  BOOST_TEST(holds(refusal_of(push(2), [](auto e) { e.getTensors()[1].setFrame(0); }), "two tensors are in payload 0"));
}

BOOST_AUTO_TEST_CASE(ATensorInAPayloadThatDidNotComeIsRefused) {
  BOOST_TEST(holds(refusal_of(push(), [](auto e) { e.getTensors()[0].setFrame(1); }), "in payload 1 of 1"));
}

BOOST_AUTO_TEST_CASE(PayloadsMayComeInAnyOrder) {
  const auto swap = [](auto e) {
    e.getTensors()[0].setFrame(1);
    e.getTensors()[1].setFrame(0);
  };
  BOOST_TEST(refusal_of(push(2), swap) == "");
}

BOOST_AUTO_TEST_CASE(EveryBitOfAPayloadIsChecked) {
  const Frames frames = push();
  for (size_t bit = 0; bit < frames.payloads[0].bytes() * 8; ++bit) {
    auto payloads = test::received(frames.payloads);
    payloads[0].raw()[bit / 8] ^= std::byte(1 << bit % 8);
    const auto got = decode(frames.head, payloads, {});
    BOOST_REQUIRE(!got);
    BOOST_TEST(holds(got.error().message, "the checksum of payload 0 is wrong"));
  }
}

BOOST_AUTO_TEST_CASE(PayloadsWithoutChecksumsAreRefusedWhereTheyAreWanted) {
  const Frames frames = encode(envelope_of(Push{1, 2, 3, 4, 5, {floats({4})}}), kRun, Checksums::without);
  BOOST_TEST(holds(refusal(frames), "the payloads have no checksums"));
}

BOOST_AUTO_TEST_CASE(AFieldWhoseTensorIsNotThereIsRefused) {
  const auto change = [](auto e) { e.getBody().getPush().getGradients().set(0, 1); };
  BOOST_TEST(holds(refusal_of(push(), change), "gradient is tensor 1 of 1"));
}

BOOST_AUTO_TEST_CASE(ATensorInTwoFieldsIsRefused) {
  const auto change = [](auto e) { e.getBody().getPush().getGradients().set(1, 0); };
  BOOST_TEST(holds(refusal_of(push(2), change), "which another field has already"));
}

BOOST_AUTO_TEST_CASE(ATensorInNoFieldIsRefused) {
  const auto change = [](auto e) { e.getBody().getPush().disownGradients(); };
  BOOST_TEST(holds(refusal_of(push(), change), "tensor 0 of 1 belongs to no field"));
}

BOOST_AUTO_TEST_CASE(GradientsAreFloats) {
  const Frames frames = frames_of(Push{1, 2, 3, 4, 5, {Tensor::zeros({2}, DType::f64)}});
  BOOST_TEST(holds(refusal(frames), "gradient is F64, expected F32"));
}

// ---- fields -----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AStepThatCannotBeIsRefused) {
  for (const int64_t step : {kFar, std::numeric_limits<int64_t>::min(), (int64_t{1} << 48) + 1})
    BOOST_TEST(holds(refusal(frames_of(PushAck{1, 2, step})), "is no step"));
}

BOOST_AUTO_TEST_CASE(ANegativeCounterIsRefused) {
  BOOST_TEST(holds(refusal(frames_of(StatsReply{1, {}, -1})), "dropped duplicates -1 is no count"));
  BOOST_TEST(holds(refusal(frames_of(StatsReply{1, {{0, 1, 1, 1, 1, {3, -2}}}})), "pulls of a lag -2 is no count"));
  BOOST_TEST(holds(refusal(frames_of(Heartbeat{1, -5})), "queued messages -5 is no count"));
  WorkDone done;
  done.max_lag = -1;
  BOOST_TEST(holds(refusal(frames_of(done)), "lag -1 is no count"));
}

BOOST_AUTO_TEST_CASE(WorkOnSamplesThatCannotBeIsRefused) {
  Work work;
  work.range = {0, -1, 5};
  BOOST_TEST(holds(refusal(frames_of(work)), "begin -1 is no count"));
}

BOOST_AUTO_TEST_CASE(NumbersThatDecideMustBeFinite) {
  BOOST_TEST(holds(refusal(frames_of(Verdict{1, false, kNaN})), "scale is nan"));
  BOOST_TEST(holds(refusal(frames_of(Partial{1, kNaN, true, ""})), "sum of squares is nan"));
  BOOST_TEST(refusal(frames_of(Partial{1, kNaN, false, ""})) == "");
  WorkDone done;
  done.compute_s = kNaN;
  BOOST_TEST(holds(refusal(frames_of(done)), "computing time is nan"));
}

BOOST_AUTO_TEST_CASE(ALossMayBeNotANumber) {
  WorkDone done;
  done.stats.loss_sum = kNaN;
  BOOST_TEST(refusal(frames_of(done)) == "");
}

BOOST_AUTO_TEST_CASE(UnknownEnumerantsAreNamed) {
  const auto reason = [](auto e) { e.getBody().getRefused().setReason(schema::Refused::Reason(3)); };
  BOOST_TEST(holds(refusal_of(frames_of(Refused{}), reason), "reason 3 is unknown"));
  const auto work = [](auto e) { e.getBody().getWork().setKind(schema::Work::Kind(3)); };
  BOOST_TEST(holds(refusal_of(frames_of(Work{}), work), "kind 3 is unknown"));
  const auto role = [](auto e) { e.getBody().getDown().getWho().setRole(schema::Role(6)); };
  BOOST_TEST(holds(refusal_of(frames_of(Down{}), role), "role 6 is unknown"));
}

BOOST_AUTO_TEST_CASE(AReplyWithStateForSomeOfItsSlicesIsRefused) {
  PullReply reply;
  reply.values = {floats({4}), floats({4})};
  reply.state = {{0, floats({4})}};
  BOOST_TEST(holds(refusal(frames_of(reply)), "1 states of 2 slices"));
}

BOOST_AUTO_TEST_CASE(OptimizerStateIsAsLongAsItsSlice) {
  BOOST_TEST(
      holds(refusal(frames_of(Install{1, {{3, floats({4}), {floats({5})}}}})), "state of slice 3 has 5 elements"));
}

// ---- membership and layout --------------------------------------------------------------------------

namespace {

template <class Change>
std::string layout_refusal(Change change) {
  return refusal_of(frames_of(membership()), [&](auto e) { change(e.getBody().getMembership().getLayout()); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(AMembershipNeedsALayout) {
  Membership m = membership();
  m.layout = nullptr;
  BOOST_TEST(holds(refusal(frames_of(m)), "no layout"));
}

BOOST_AUTO_TEST_CASE(ALayoutForServersThatDoNotExistIsRefused) {
  for (const uint32_t servers : {0u, 3u, 0xffffffffu})
    BOOST_TEST(holds(layout_refusal([&](auto l) { l.setServers(servers); }), "servers, the membership has 2"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[0].setServer(2); }), "server 2"));
}

BOOST_AUTO_TEST_CASE(ASliceOutsideItsLayerIsRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[2].setEnd(41); }), "slice 2 is [32, 41) of 40"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[0].setBegin(-16); }), "slice 0 is [-16, 16) of 40"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[0].setEnd(0); }), "slice 0 is [0, 0) of 40"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[0].setLayer(2); }), "layer 2"));
}

BOOST_AUTO_TEST_CASE(SlicesThatLeaveAGapAreRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[1].setBegin(20); }), "slice 1 begins at 20"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getSlices()[2].setEnd(36); }), "slices cover 36 of the 40 elements"));
}

BOOST_AUTO_TEST_CASE(AParcelOfASliceThatDoesNotExistIsRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getParcels()[0].getSlices().set(0, 99); }), "slice 99"));
}

BOOST_AUTO_TEST_CASE(ASliceInTwoParcelsIsRefused) {
  BOOST_TEST(layout_refusal([](auto l) { l.getParcels()[0].getSlices().set(0, 1); }) != "");
}

BOOST_AUTO_TEST_CASE(AParcelBeforeTheFirstAndBehindTheLastLayerIsRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getParcels()[0].setPriority(2); }), "priority 2"));
}

BOOST_AUTO_TEST_CASE(ATensorOutsideItsLayerIsRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getLayers()[0].getParams()[1].setOffset(33); }), "fc1.bias is at 33"));
  const auto shape = [](auto l) { l.getLayers()[0].getParams()[1].getShape().set(0, 9); };
  BOOST_TEST(holds(layout_refusal(shape), "has 40 elements, tensors of 41"));
}

BOOST_AUTO_TEST_CASE(AParameterShapeThatCannotBeIsRefused) {
  const auto shape = [](auto l) { l.getLayers()[0].getParams()[0].getShape().set(0, -4); };
  BOOST_TEST(holds(layout_refusal(shape), "dimension 0 is -4"));
}

BOOST_AUTO_TEST_CASE(LayersWithoutPoliciesAreRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.disownPolicies(); }), "0 policies for 2 layers"));
}

BOOST_AUTO_TEST_CASE(APolicyThatCannotBeIsRefused) {
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getPolicies()[0].setMode(schema::Policy::Mode(4)); }), "mode 4"));
  BOOST_TEST(holds(layout_refusal([](auto l) { l.getPolicies()[1].setStaleness(-1); }), "staleness -1"));
}

// ---- replication ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AnEventWithinAnEventIsRefused) {
  const auto event = [](Message body) { return std::make_shared<Envelope>(envelope_of(std::move(body))); };
  BOOST_TEST(refusal(frames_of(Replicate{1, event(Pull{}), {}})) == "");
  BOOST_TEST(holds(refusal(frames_of(Replicate{1, event(Replicate{1, event(Pull{}), {}}), {}})), "a Replicate itself"));
}

BOOST_AUTO_TEST_CASE(EventsNestedAThousandDeepAreRefused) {
  Envelope inner = envelope_of(Pull{});
  for (int i = 0; i < 1000; ++i) inner = envelope_of(Replicate{1, std::make_shared<Envelope>(std::move(inner)), {}});
  BOOST_TEST(holds(refusal(encode(inner, kRun)), "a Replicate itself"));
}

BOOST_AUTO_TEST_CASE(AnImageComesFirstAndAlone) {
  const auto shared = std::make_shared<const ShardImage>(image());
  const auto event = std::make_shared<const Envelope>(envelope_of(Pull{}));
  BOOST_TEST(refusal(frames_of(Replicate{0, {}, shared})) == "");
  BOOST_TEST(holds(refusal(frames_of(Replicate{0, {}, {}})), "index 0 has no image"));
  BOOST_TEST(holds(refusal(frames_of(Replicate{0, event, shared})), "index 0 has an event"));
  BOOST_TEST(holds(refusal(frames_of(Replicate{1, event, shared})), "index 1 has an image"));
  BOOST_TEST(holds(refusal(frames_of(Replicate{1, {}, {}})), "index 1 has no event"));
}

// ---- blocks -----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(EveryBitOfABlockIsChecked) {
  const std::vector<std::byte> whole = pack(envelope_of(Push{1, 2, 3, 4, 5, {floats({4})}}), kRun);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> flipped = whole;
    flipped[bit / 8] ^= std::byte(1 << bit % 8);
    BOOST_TEST(!unpack(flipped, {}), "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(ABlockOfAnotherLengthIsRefused) {
  std::vector<std::byte> block = pack(envelope_of(Push{1, 2, 3, 4, 5, {floats({4})}}), kRun);
  for (size_t size = 0; size < block.size(); ++size) {
    std::vector<std::byte> cut(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size));
    BOOST_TEST(!unpack(cut, {}), size);
    test::seal(cut);
    BOOST_TEST(!unpack(cut, {}), "resealed at " << size);
  }
  block.resize(block.size() + 1);
  test::seal(block);
  BOOST_TEST(!unpack(block, {}));
}

BOOST_AUTO_TEST_CASE(RowNumbersAreWholeNumbersInOneList) {
  Push push{1, 2, 3, 4, 5, {floats({4})}};
  push.rows = Tensor::zeros({2}, DType::i32);
  BOOST_TEST(refusal(frames_of(push)) == "");
  for (const Tensor& rows : {Tensor::zeros({2}), Tensor::zeros({1, 2}, DType::i32), Tensor::zeros({}, DType::i32)}) {
    push.rows = rows;
    BOOST_TEST(holds(refusal(frames_of(push)), "expected I32 of one dimension"));
    BOOST_TEST(holds(refusal(frames_of(Pull{1, 2, 3, rows})), "expected I32 of one dimension"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
