// The thread that reads all rings into a process.
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <set>

#include <tests/support/shared_mail.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(shared_reader)

namespace {

constexpr uint64_t kArena = 1 << 20;
constexpr std::chrono::seconds kPatience{20};

/// What a reader handed over, by link, for a test that waits for it.
class Log {
 public:
  void add(uint64_t link, const std::string& text) {
    std::lock_guard lock(mutex_);
    texts_[link].push_back(text);
    ++count_;
    changed_.notify_all();
  }
  bool wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return count_ >= count; });
  }
  std::vector<std::string> texts(uint64_t link) {
    std::lock_guard lock(mutex_);
    return texts_[link];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::vector<std::string>> texts_;
  size_t count_ = 0;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `also` is called on the reader's thread with the link of each message.
struct Listener {
  explicit Listener(std::function<void(uint64_t)> also = [](uint64_t) {}) : also(std::move(also)) {}

  Log messages, ended;
  const std::function<void(uint64_t)> also;
  std::unique_ptr<SharedReader> reader =
      SharedReader::start({[this](uint64_t link, std::span<const std::byte> head, std::vector<Tensor>) {
                             also(link);
                             messages.add(link, text_of(head));
                           },
                           [this](uint64_t link, const Status& why) {
                             ended.add(link, why ? "" : why.error().message);
                           }},
                          {})
          .value();

  std::shared_ptr<SharedSender> sender(uint64_t link) {
    auto made = SharedSender::create(kArena).value();
    made->set_doorbell(Doorbell::open(reader->doorbell()).value());
    TROUPE_CHECK(reader->attach(link, made->offer()), "link ", link);
    return made;
  }
};

bool say(SharedSender& sender, const std::string& text) { return sender.send(std::as_bytes(std::span(text)), {}); }

}  // namespace

BOOST_AUTO_TEST_CASE(MessagesOfEachSenderComeInOrderWithTheirLink) {
  Listener listener;
  const auto a = listener.sender(1), b = listener.sender(2);
  for (const char* text : {"1", "2", "3"}) {
    BOOST_TEST(say(*a, std::string("a") + text));
    BOOST_TEST(say(*b, std::string("b") + text));
  }
  BOOST_TEST(listener.messages.wait_for(6));
  BOOST_TEST((listener.messages.texts(1) == std::vector<std::string>{"a1", "a2", "a3"}));
  BOOST_TEST((listener.messages.texts(2) == std::vector<std::string>{"b1", "b2", "b3"}));
}

BOOST_AUTO_TEST_CASE(ASleepingReaderIsWokenByEveryMessage) {
  Listener listener;
  const auto sender = listener.sender(1);
  for (size_t i = 1; i <= 200; ++i) {
    BOOST_TEST(say(*sender, "x"));
    BOOST_REQUIRE(listener.messages.wait_for(i));
  }
}

BOOST_AUTO_TEST_CASE(ALongQueueOfOneDoesNotKeepAnotherWaiting) {
  std::mutex gate;
  std::unique_lock closed(gate);
  int before_other = 0;
  bool other_came = false;
  Listener listener([&](uint64_t link) {
    std::lock_guard wait(gate);
    if (link == 2) other_came = true;
    if (!other_came) ++before_other;
  });
  const auto busy = listener.sender(1), other = listener.sender(2);
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(say(*busy, "x"));
  BOOST_TEST(say(*other, "y"));
  closed.unlock();
  BOOST_TEST(listener.messages.wait_for(1001));
  closed.lock();
  BOOST_TEST(other_came);
  BOOST_TEST(before_other < 100);
  closed.unlock();
}

BOOST_AUTO_TEST_CASE(WhatWasSentBeforeItsDetachIsStillHandedOver) {
  std::mutex gate;
  std::unique_lock closed(gate);
  Listener listener([&](uint64_t) { std::lock_guard wait(gate); });
  const auto sender = listener.sender(1);
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(say(*sender, "x"));
  listener.reader->detach(1);
  closed.unlock();
  BOOST_TEST(listener.messages.wait_for(100));
}

BOOST_AUTO_TEST_CASE(ADetachedLinkIsReadNoMore) {
  Listener listener;
  const auto gone = listener.sender(1), stays = listener.sender(2);
  listener.reader->detach(1);
  BOOST_TEST(say(*stays, "seen"));
  BOOST_TEST(listener.messages.wait_for(1));  // so the detach has happened
  BOOST_TEST(say(*gone, "unseen"));
  BOOST_TEST(say(*stays, "seen"));
  BOOST_TEST(listener.messages.wait_for(2));
  BOOST_TEST(listener.messages.texts(1).empty());
}

BOOST_AUTO_TEST_CASE(ASenderThatGoesIsHeardToTheEndAndForgotten) {
  Listener listener;
  auto sender = listener.sender(1);
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(say(*sender, "x"));
  sender.reset();
  BOOST_TEST(listener.ended.wait_for(1));
  BOOST_TEST((listener.ended.texts(1) == std::vector<std::string>{""}));
  BOOST_TEST(listener.messages.texts(1).size() == 100u);
  BOOST_TEST(mapped_segments() == 1);  // the doorbell
}

BOOST_AUTO_TEST_CASE(ASinkMayAttachAndDetach) {
  std::shared_ptr<SharedSender> second;
  std::function<void()> move_on;
  Listener listener([&](uint64_t link) {
    if (link == 1) move_on();
  });
  move_on = [&] {
    listener.reader->detach(1);
    second = listener.sender(2);
    say(*second, "from the sink");
  };
  const auto first = listener.sender(1);
  BOOST_TEST(say(*first, "x"));
  BOOST_TEST(listener.messages.wait_for(2));
  BOOST_TEST((listener.messages.texts(2) == std::vector<std::string>{"from the sink"}));
}

BOOST_AUTO_TEST_CASE(NonsenseEndsItsLinkAndNoOther) {
  Listener listener;
  const auto good = listener.sender(1);
  const auto bad = SharedSender::create(kArena).value();
  bad->set_doorbell(Doorbell::create().value());
  const auto memory = SharedMemory::open(bad->offer(), 1 << 30).value();
  BOOST_TEST(say(*bad, "x"));
  reinterpret_cast<shared::Control*>(memory->data())->ring[0].offset = UINT64_MAX;
  BOOST_REQUIRE(listener.reader->attach(2, bad->offer()));
  BOOST_TEST(listener.ended.wait_for(1));
  BOOST_TEST(listener.ended.texts(2)[0].find("message 1 in shared memory") != std::string::npos);
  BOOST_TEST(say(*good, "still here"));
  BOOST_TEST(listener.messages.wait_for(1));
}

BOOST_AUTO_TEST_CASE(AnOfferThatIsRefusedLeavesTheReaderAsItWas) {
  Listener listener;
  const auto good = listener.sender(1);
  SharedOffer offer = good->offer();
  offer.token ^= 1;
  BOOST_TEST(!listener.reader->attach(2, offer));
  BOOST_TEST(!listener.reader->attach(2, SharedMemory::create(8).value()->offer()));
  BOOST_TEST(say(*good, "x"));
  BOOST_TEST(listener.messages.wait_for(1));
}

BOOST_AUTO_TEST_CASE(AScribbledDoorbellCostsNoMoreThanTime) {
  Listener listener;
  const auto sender = listener.sender(1);
  const auto bell = SharedMemory::open(listener.reader->doorbell(), 64).value();
  auto& asleep = *reinterpret_cast<std::atomic<uint32_t>*>(bell->data());
  for (size_t i = 1; i <= 3; ++i) {
    asleep = i == 2 ? 77 : 0;
    BOOST_TEST(say(*sender, "x"));
    BOOST_TEST(listener.messages.wait_for(i));
  }
}

BOOST_AUTO_TEST_CASE(NothingStaysMappedAfterItsEnd) {
  {
    Listener listener;
    const auto sender = listener.sender(1);
    say(*sender, "x");
    listener.messages.wait_for(1);
    BOOST_TEST(mapped_segments() == 4);
  }
  BOOST_TEST(mapped_segments() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
