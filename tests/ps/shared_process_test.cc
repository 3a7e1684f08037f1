// Two processes, and what is left when one of them is killed.
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include <tests/support/child_process.h>
#include <tests/support/shared_mail.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(shared_process)

namespace {

constexpr uint64_t kArena = 1 << 20;

uint64_t sum_of(std::span<const std::byte> bytes, uint64_t sum = 1) {
  for (const std::byte b : bytes) sum = sum * 31 + static_cast<uint64_t>(b);
  return sum;
}

/// The sums of the head's bytes before these eight, and of all payloads.
struct Sums {
  uint64_t number = 0, sum = 0;
};

struct Message {
  Sums head;
  std::vector<Tensor> payloads;
};

/// The n-th of a stream of messages that both processes can make: mostly small, with none to three payloads.
Message message(uint64_t n, const Tensor& source) {
  Random random(n);
  Message m{{n, 1}, {}};
  for (uint64_t i = random.below(4); i-- > 0;) {
    const uint64_t bytes = random.chance(0.002) ? random.below(kArena / 3) : random.below(300);
    const uint64_t from = random.below(static_cast<uint64_t>(source.count()) - bytes);
    m.payloads.push_back(source.view(static_cast<int64_t>(from), {static_cast<int64_t>(bytes)}));
    m.head.sum = sum_of({m.payloads.back().raw(), bytes}, m.head.sum);
  }
  return m;
}

std::span<const std::byte> bytes_of(const Sums& head) { return std::as_bytes(std::span(&head, 1)); }

std::shared_ptr<SharedSender> sender_to(const SharedOffer& doorbell, uint64_t arena_bytes = kArena) {
  auto sender = SharedSender::create(arena_bytes).value();
  sender->set_doorbell(Doorbell::open(doorbell).value());
  return sender;
}

/// Counts up while a stream of right messages comes in; says so when something is wrong or all have come.
struct Checker {
  uint64_t expected = 0, last = 0;
  std::vector<Tensor> held;  // some, so that blocks come back in another order
  std::promise<bool> done;

  void take(std::span<const std::byte> head, std::vector<Tensor> payloads) {
    if (expected >= last) return;
    Sums sums;
    bool right = head.size() == sizeof sums;
    if (right) std::memcpy(&sums, head.data(), sizeof sums);
    uint64_t sum = 1;
    for (const Tensor& payload : payloads) sum = sum_of({payload.raw(), payload.bytes()}, sum);
    right = right && sums.number == expected && sums.sum == sum;
    Random random(expected);
    for (Tensor& payload : payloads)
      if (payload.buffer()->bytes() < 1000 && random.chance(0.5)) held.push_back(std::move(payload));
    if (held.size() > 100) {
      std::swap(held[random.below(held.size())], held.back());
      held.resize(random.below(100));
    }
    if (!right) last = expected;
    if (!right || ++expected == last) done.set_value(right);
  }
};

SharedReader::Sinks into(Checker& checker) {
  return {[&](uint64_t, std::span<const std::byte> head, std::vector<Tensor> payloads) {
            checker.take(head, std::move(payloads));
          },
          [&](uint64_t, const Status& why) {
            if (!why) ::_exit(3);
          }};
}

}  // namespace

BOOST_AUTO_TEST_CASE(AHundredThousandMessagesOfRandomSizesArriveWholeAndInOrder) {
  constexpr uint64_t kMessages = 100'000;
  Mail to_child, from_child;
  ChildProcess child([&](int channel) {
    Checker checker;
    checker.last = kMessages;
    auto reader = SharedReader::start(into(checker), {}).value();
    from_child.put(reader->doorbell());
    if (!reader->attach(1, to_child.take<SharedOffer>())) return;
    from_child.put(0);
    ChildProcess::tell(channel, checker.done.get_future().get() ? "right" : "wrong");
  });
  const Tensor source = u8(random_bytes(1, kArena));
  // Small messages that are held can never be so many that a large one finds no gap.
  const auto sender = sender_to(from_child.take<SharedOffer>(), 4 * kArena);
  to_child.put(sender->offer());
  from_child.take<int>();
  int refused = 0;
  for (uint64_t n = 0; n < kMessages; ++n) {
    const Message m = message(n, source);
    for (int tries = 0; !sender->send(bytes_of(m.head), m.payloads); ++tries, ++refused) {
      BOOST_REQUIRE(tries < 100'000);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  BOOST_TEST(child.line() == "right");
}

BOOST_AUTO_TEST_CASE(ProcessesWakeEachOther) {
  constexpr int kRounds = 1000;
  Mail to_child, from_child;
  // Each side answers what it gets, until kRounds came.
  const auto play = [](Mail& out, Mail& in, bool begins) {
    std::shared_ptr<SharedSender> sender;
    std::promise<void> done;
    int rounds = 0;
    const auto answer = [&] {
      sender->send({}, {});
      if (++rounds == kRounds) done.set_value();
    };
    auto reader = SharedReader::start({[&](uint64_t, std::span<const std::byte>, std::vector<Tensor>) {
                                         if (rounds < kRounds) answer();
                                       },
                                       // Whoever is done first closes its end.
                                       [](uint64_t, const Status& why) { if (!why) ::_exit(3); }},
                                      {})
                      .value();
    out.put(reader->doorbell());
    sender = sender_to(in.take<SharedOffer>());
    out.put(sender->offer());
    if (!reader->attach(1, in.take<SharedOffer>())) return false;
    out.put(0), in.take<int>();
    if (begins) sender->send({}, {});
    done.get_future().get();
    out.put(0), in.take<int>();
    return true;
  };
  ChildProcess child(
      [&](int channel) { ChildProcess::tell(channel, play(from_child, to_child, true) ? "all" : "none"); });
  BOOST_TEST(play(to_child, from_child, false));
  BOOST_TEST(child.line() == "all");
}

BOOST_AUTO_TEST_CASE(ADeadReceiverFillsItsArenaAndCostsNothingElse) {
  Mail to_child, from_child;
  ChildProcess child([&](int) {
    Checker checker;
    auto reader = SharedReader::start(into(checker), {}).value();
    from_child.put(reader->doorbell());
    if (!reader->attach(1, to_child.take<SharedOffer>())) return;
    from_child.put(0);
    ::pause();
  });
  auto sender = sender_to(from_child.take<SharedOffer>());
  to_child.put(sender->offer());
  from_child.take<int>();
  child.end(SIGKILL);
  const std::vector<Tensor> payload = {Tensor::zeros({kArena / 10}, DType::u8)};
  int sent = 0;
  while (sent < 100 && sender->send({}, payload)) ++sent;
  BOOST_TEST(sent == 9);
  sender.reset();
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_CASE(WhatADeadSenderHadFinishedIsReadAndStaysReadable) {
  Mail to_child, from_child;
  ChildProcess child([&](int) {
    const Tensor source = u8(random_bytes(1, kArena));
    const auto sender = sender_to(to_child.take<SharedOffer>());
    for (uint64_t n = 0; n < 100; ++n) {
      const Message m = message(n, source);
      if (!sender->send(bytes_of(m.head), m.payloads)) return;
    }
    from_child.put(sender->offer());
    ::pause();
  });
  auto bell = std::make_unique<Doorbell>(Doorbell::create().value());
  to_child.put(bell->offer());
  auto receiver = SharedReceiver::open(from_child.take<SharedOffer>(), kArena).value();
  child.end(SIGKILL);
  const Tensor source = u8(random_bytes(1, kArena));
  std::vector<std::vector<Tensor>> held;
  for (uint64_t n = 0; n < 100; ++n)
    BOOST_REQUIRE(
        receiver->receive([&](std::span<const std::byte>, std::vector<Tensor> p) { held.push_back(p); }).value());
  receiver.reset();
  for (uint64_t n = 0; n < 100; ++n) {
    const Message m = message(n, source);
    for (size_t i = 0; i < m.payloads.size(); ++i)
      BOOST_REQUIRE((test::bytes_of(held[n][i]) == test::bytes_of(m.payloads[i])));
  }
  bell.reset(), held.clear();
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_CASE(ASenderKilledAtAnyMomentLeavesWholeMessages) {
  for (int round = 0; round < 20; ++round) {
    Mail to_child, from_child;
    ChildProcess child([&](int) {
      const Tensor source = u8(random_bytes(1, kArena));
      const auto sender = sender_to(to_child.take<SharedOffer>());
      from_child.put(sender->offer());
      for (uint64_t n = 0;;) {
        const Message m = message(n, source);
        if (sender->send(bytes_of(m.head), m.payloads)) ++n;
      }
    });
    const auto bell = Doorbell::create().value();
    to_child.put(bell.offer());
    auto receiver = SharedReceiver::open(from_child.take<SharedOffer>(), kArena).value();
    Checker checker;
    checker.last = UINT64_MAX;
    const auto poll = [&] {
      return receiver
          ->receive([&](std::span<const std::byte> head, std::vector<Tensor> p) { checker.take(head, std::move(p)); })
          .value();
    };
    const uint64_t until = 50 + Random(static_cast<uint64_t>(round)).below(500);
    while (checker.expected < until && checker.last == UINT64_MAX) poll();
    child.end(SIGKILL);
    while (poll()) {
    }
    BOOST_TEST(checker.last == UINT64_MAX);  // all were right
  }
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
