// Large tensors are read where their sender made them.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include <troupe/ps/transport/internal/peer_heaps.h>
#include <troupe/ps/transport/internal/process_handle.h>
#include <troupe/ps/transport/internal/shared_heap.h>

#include <tests/support/child_process.h>
#include <tests/support/shared_mail.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

namespace {

constexpr uint64_t kArena = 1 << 20;
constexpr int64_t kLarge = 300'000;

Tensor to_lend(const Bytes& bytes) {
  Tensor t = Tensor::to_lend({static_cast<int64_t>(bytes.size())}, DType::u8);
  std::memcpy(t.raw(), bytes.data(), bytes.size());
  return t;
}

/// Two ends in one process, of which one lends to the other. In a process that was forked there is no heap of its own.
struct Lending {
  SharedHeap& heap = *SharedHeap::of_this_process();
  Doorbell bell = Doorbell::create().value();
  std::shared_ptr<SharedSender> sender = SharedSender::create(kArena).value();
  PeerHeaps heaps;
  std::unique_ptr<SharedReceiver> receiver =
      SharedReceiver::open(sender->offer(), kArena, heaps.open(heap.offer())).value();

  Lending() {
    sender->set_doorbell(Doorbell::open(bell.offer()).value());
    sender->lend(heap, open_process(::getpid()));
  }
  Received receive() {
    Received message;
    const auto result = receiver->receive([&](std::span<const std::byte> head, std::vector<Tensor> payloads) {
      message = {{head.begin(), head.end()}, std::move(payloads)};
    });
    TROUPE_CHECK(result && *result, result ? "no message" : result.error().message);
    return message;
  }
  /// What the receiver says to a payload that is said to be so long and there.
  std::string refusal(const shared::Payload& payload, const SharedOffer& its_heap) {
    auto reading = SharedReceiver::open(sender->offer(), kArena, heaps.open(its_heap)).value();
    auto memory = SharedMemory::open(sender->offer(), 1 << 24).value();
    sender->send({}, std::vector<Tensor>{u8(random_bytes(1, 100))});
    auto& control = *reinterpret_cast<shared::Control*>(memory->data());
    std::memcpy(memory->data() + sizeof control + control.ring[0].offset, &payload, sizeof payload);
    const auto result = reading->receive([](std::span<const std::byte>, const std::vector<Tensor>&) {});
    return result ? "" : result.error().message;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(shared_heap, Lending)

BOOST_AUTO_TEST_CASE(WhatMayBeLentLiesInTheHeapOfItsProcess) {
  const Tensor large = Tensor::to_lend({kLarge}, DType::u8), small = Tensor::to_lend({1000}, DType::u8);
  BOOST_REQUIRE(heap.place_of(large.raw()));
  BOOST_TEST(*heap.place_of(large.raw()) % shared::kAlignment == 0u);
  BOOST_TEST(!heap.place_of(small.raw()));
  BOOST_TEST(!heap.place_of(Tensor::empty({kLarge}, DType::u8).raw()));  // activations stay where they are
}

BOOST_AUTO_TEST_CASE(ALargeTensorIsNotCopied) {
  const Bytes bytes = random_bytes(1, kLarge), few = random_bytes(2, 100);
  BOOST_TEST(sender->send(few, std::vector<Tensor>{u8(few), to_lend(bytes), u8(few)}));
  BOOST_TEST(sender->held_bytes() < 1000u);
  BOOST_TEST(sender->lent_bytes() == bytes.size());
  const Received got = receive();
  BOOST_TEST((got.head == few));
  BOOST_REQUIRE(got.payloads.size() == 3u);
  BOOST_TEST((bytes_of(got.payloads[0]) == few));
  BOOST_TEST((bytes_of(got.payloads[1]) == bytes));
  BOOST_TEST((bytes_of(got.payloads[2]) == few));
  BOOST_TEST(!got.payloads[1].buffer()->writable());
}

BOOST_AUTO_TEST_CASE(APartOfATensorIsLentFromWhereItBegins) {
  const Bytes bytes = random_bytes(1, kLarge);
  const Tensor whole = to_lend(bytes);
  sender->send({}, std::vector<Tensor>{whole.view(64, {100'000}), whole.view(32, {100'000})});
  const uint64_t copied = sender->held_bytes();
  BOOST_TEST((copied > 100'000u && copied < 200'000u));  // the other begins where no tensor may
  const Received got = receive();
  BOOST_TEST((bytes_of(got.payloads[0]) == Bytes(bytes.begin() + 64, bytes.begin() + 100'064)));
  BOOST_TEST((bytes_of(got.payloads[1]) == Bytes(bytes.begin() + 32, bytes.begin() + 100'032)));
}

BOOST_AUTO_TEST_CASE(WhatIsGivenBackIsTheSendersAlone) {
  const Tensor tensor = to_lend(random_bytes(1, kLarge));
  sender->send({}, std::vector<Tensor>{tensor});
  {
    const Received got = receive();
    BOOST_TEST(sender->lent_bytes() == static_cast<uint64_t>(kLarge));
    BOOST_TEST(tensor.buffer().use_count() == 2);
  }
  BOOST_TEST(sender->lent_bytes() == 0u);
  BOOST_TEST(tensor.buffer().use_count() == 1);
}

BOOST_AUTO_TEST_CASE(NoMoreIsLentThanTheArenaHas) {
  const std::vector<Tensor> one = {to_lend(random_bytes(1, 700'000))}, another = {to_lend(random_bytes(2, 700'000))};
  BOOST_TEST(sender->send({}, one));
  BOOST_TEST(sender->lent_bytes() == 700'000u);
  BOOST_TEST(sender->send({}, another));  // copied
  BOOST_TEST(sender->lent_bytes() == 700'000u);
  BOOST_TEST(!sender->send({}, another));
  receive();
  BOOST_TEST(sender->send({}, another));
}

// What the receiver holds of it keeps all of it here.
BOOST_AUTO_TEST_CASE(APartCountsAsTheWholeThatItKeepsAndOnce) {
  const Tensor whole = to_lend(random_bytes(1, 900'000)), other = to_lend(random_bytes(2, 200'000));
  sender->send({}, std::vector<Tensor>{whole.view(0, {100'000})});
  BOOST_TEST(sender->lent_bytes() == 900'000u);
  sender->send({}, std::vector<Tensor>{whole.view(128'000, {100'000}), whole.view(256'000, {100'000})});
  BOOST_TEST(sender->lent_bytes() == 900'000u);
  sender->send({}, std::vector<Tensor>{other});  // copied
  BOOST_TEST(sender->lent_bytes() == 900'000u);
  receive();
  BOOST_TEST(sender->lent_bytes() == 900'000u);
  receive();
  BOOST_TEST(sender->lent_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(ABufferOfAnySizeIsLentWhereNothingElseIs) {
  const Tensor large = to_lend(random_bytes(1, 3'000'000)), small = to_lend(random_bytes(2, 100'000));
  for (int64_t at = 0; at < 3'000'000; at += 300'032)
    BOOST_TEST(sender->send({}, std::vector<Tensor>{large.view(at, {299'000})}));
  BOOST_TEST(sender->lent_bytes() == 3'000'000u);
  sender->send({}, std::vector<Tensor>{small});  // copied
  BOOST_TEST(sender->lent_bytes() == 3'000'000u);
}

BOOST_AUTO_TEST_CASE(WhatIsLentStaysAsItIsWhenTheRingEnds) {
  const Bytes bytes = random_bytes(1, kLarge);
  sender->send({}, std::vector<Tensor>{to_lend(bytes)});
  Received got = receive();
  sender->send({}, std::vector<Tensor>{to_lend(bytes)});  // and what nobody has read yet
  sender.reset();
  std::vector<Tensor> others;
  for (int i = 0; i < 10; ++i) others.push_back(to_lend(Bytes(kLarge, std::byte{0xff})));
  BOOST_TEST((bytes_of(got.payloads[0]) == bytes));
  BOOST_TEST((bytes_of(receive().payloads[0]) == bytes));
  BOOST_TEST(heap.take_back() == static_cast<uint64_t>(kLarge));
  got = {};
  BOOST_TEST(heap.take_back() == 0u);
}

BOOST_AUTO_TEST_CASE(WhatADeadReceiverWasLentComesBack) {
  Mail to_child, from_child;
  ChildProcess child([&](int) {
    Doorbell rung = Doorbell::create().value();
    from_child.put(rung.offer());
    const auto ring = to_child.take<SharedOffer>(), its_heap = to_child.take<SharedOffer>();
    auto reading = SharedReceiver::open(ring, kArena, PeerHeaps().open(its_heap)).value();
    from_child.put(0), to_child.take<int>();
    std::vector<Tensor> held;
    const auto got =
        reading->receive([&](std::span<const std::byte>, std::vector<Tensor> payloads) { held = payloads; });
    from_child.put(got.value() && bytes_of(held.at(0)) == random_bytes(1, kLarge));
    ::pause();
  });
  auto lending = SharedSender::create(kArena).value();
  const auto doorbell = from_child.take<SharedOffer>();
  lending->set_doorbell(Doorbell::open(doorbell).value());
  lending->lend(heap, open_process(doorbell.pid));
  to_child.put(lending->offer()), to_child.put(heap.offer()), from_child.take<int>();
  lending->send({}, std::vector<Tensor>{to_lend(random_bytes(1, kLarge))});
  to_child.put(0);
  BOOST_TEST(from_child.take<bool>());
  lending.reset();
  BOOST_TEST(heap.take_back() == static_cast<uint64_t>(kLarge));
  child.end(SIGKILL);
  BOOST_TEST(heap.take_back() == 0u);
}

BOOST_AUTO_TEST_CASE(AProcessThatIsForkedWritesNothingOfItsParents) {
  const Bytes bytes = random_bytes(1, kLarge);
  Tensor held = to_lend(bytes);
  to_lend(bytes);  // a block that is free in both
  ChildProcess child([&](int channel) {
    bool elsewhere = SharedHeap::of_this_process() == nullptr;
    held = {};
    for (int i = 0; i < 10; ++i) elsewhere &= !heap.place_of(to_lend(Bytes(kLarge, std::byte{0xff})).raw());
    ChildProcess::tell(channel, elsewhere ? "elsewhere" : "in the heap");
  });
  BOOST_TEST(child.line() == "elsewhere");
  BOOST_TEST((bytes_of(held) == bytes));
}

BOOST_AUTO_TEST_CASE(APlaceOutsideOfTheHeapIsRefused) {
  const std::string outside = "outside of the sender's heap";
  const uint64_t all = heap.offer().bytes;
  for (const shared::Payload& payload : {shared::Payload{100, all + 64}, {100, all / 64 * 64}, {all, 64},
                                         {UINT64_MAX, 64}, {100, UINT64_MAX - 63}, {100, 65}}) {
    Lending fresh;
    const std::string why = fresh.refusal(payload, heap.offer());
    BOOST_TEST(why.find(outside) != std::string::npos, payload.bytes << " at " << payload.place << ": " << why);
  }
  Lending fresh;
  BOOST_TEST(fresh.refusal({100, 64}, {}).find(outside) != std::string::npos);  // none was mapped
}

BOOST_AUTO_TEST_CASE(AHeapThatIsNoneIsNotMapped) {
  SharedOffer wrong = heap.offer();
  ++wrong.token;
  for (const SharedOffer& offered : {SharedOffer{}, wrong, SharedOffer{::getpid(), 0, 1, 1 << 20}})
    BOOST_TEST(!PeerHeaps().open(offered));
  BOOST_TEST(PeerHeaps().open(heap.offer()) != nullptr);
}

BOOST_AUTO_TEST_CASE(AHeapIsMappedOnceForAllRingsOfItsProcess) {
  const auto first = heaps.open(heap.offer());
  BOOST_REQUIRE(first);
  BOOST_TEST(heaps.open(heap.offer()) == first);
  BOOST_TEST(PeerHeaps().open(heap.offer()) != first);
}

// Else one tensor that is held for long would keep all that its process had, in every process that survives.
BOOST_AUTO_TEST_CASE(OfAnEndedProcessWhatIsHeldIsCopiedAndTheRestLetGo) {
  const Bytes bytes = random_bytes(1, 20'000);
  Mail from_child;
  ChildProcess child([&](int) {
    const auto memory = SharedMemory::create(1 << 20).value();
    std::memcpy(memory->data() + 100'000, bytes.data(), bytes.size());
    from_child.put(memory->offer());
    ::pause();
  });
  PeerHeaps few;
  const auto other = few.open(from_child.take<SharedOffer>());
  BOOST_REQUIRE(other);
  std::vector<BufferPtr> held = {other->borrow(100'000, 10'000, nullptr), other->borrow(105'000, 15'000, nullptr),
                                 other->borrow(900'000, 100, nullptr)};
  const int mapped = mapped_segments();
  BOOST_TEST(few.take_ended().empty());
  child.end(SIGKILL);
  for (const auto& heap : few.take_ended()) heap->let_go();
  BOOST_TEST(mapped_segments() == mapped - 1);
  BOOST_TEST((Bytes(held[0]->data(), held[0]->data() + 10'000) == Bytes(bytes.begin(), bytes.begin() + 10'000)));
  BOOST_TEST((Bytes(held[1]->data(), held[1]->data() + 15'000) == Bytes(bytes.begin() + 5'000, bytes.end())));
  BOOST_TEST((Bytes(held[2]->data(), held[2]->data() + 100) == Bytes(100)));
  BOOST_TEST(!other->borrow(100'000, 10'000, nullptr));
}

BOOST_AUTO_TEST_CASE(OfAProcessOneHeapIsMappedAtATime) {
  PeerHeaps few;
  const auto one = SharedMemory::create(1 << 20).value(), another = SharedMemory::create(1 << 20).value();
  auto mapped = few.open(one->offer());
  BOOST_REQUIRE(mapped);
  BOOST_TEST(!few.open(another->offer()));
  mapped.reset();
  BOOST_TEST(few.open(another->offer()) != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
