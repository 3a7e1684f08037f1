// How a message gets from a transport's thread to an actor.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <future>
#include <semaphore>
#include <thread>

#include <caf/all.hpp>

#include <troupe/actors/prompt_mail.h>
#include <troupe/actors/system_config.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(prompt_mail)

namespace {

const Endpoint kWorker{Role::worker, 0, 1}, kServer{Role::server, 0, 1};

EnvelopePtr envelope(Message body) {
  return std::make_shared<const Envelope>(Envelope{kWorker, kServer, 1, std::move(body)});
}

/// An actor that calls a function with each message, and another with what was done, on whatever thread runs it.
struct Listener {
  explicit Listener(
      std::function<void(const Envelope&)> take, std::function<void()> done = [] {}) {
    actor = system.spawn([take = std::move(take), done = std::move(done)](caf::event_based_actor*) -> caf::behavior {
      return {[take](const EnvelopePtr& message) { take(*message); }, [done](const TaskDonePtr&) { done(); }};
    });
  }
  ~Listener() { caf::anon_send_exit(actor, caf::exit_reason::user_shutdown); }

  SystemConfig config{2};
  caf::actor_system system{config};
  caf::actor actor;
};

template <class T>
bool ready(std::future<T>& result) {
  return result.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

}  // namespace

BOOST_AUTO_TEST_CASE(AnActorThatWaitsTakesAPushOnTheThreadThatBringsIt) {
  const auto here = std::this_thread::get_id();
  std::atomic<bool> taken_here{false};
  std::counting_semaphore<> taken{0};
  Listener listener([&](const Envelope&) {
    taken_here = taken_here || std::this_thread::get_id() == here;
    taken.release();
  });
  // The scheduler may still be at its first run, or at the message before.
  for (int sent = 1; !taken_here && sent < 1000; ++sent) {
    deliver_here(listener.actor, envelope(Push{}));
    BOOST_REQUIRE(taken.try_acquire_for(std::chrono::seconds(10)));
  }
  BOOST_TEST(taken_here);
}

BOOST_AUTO_TEST_CASE(AnActorThatWaitsHearsWhatWasDoneOnTheThreadThatDidIt) {
  const auto here = std::this_thread::get_id();
  std::atomic<bool> heard_here{false};
  std::counting_semaphore<> heard{0};
  Listener listener([](const Envelope&) {},
                    [&] {
                      heard_here = heard_here || std::this_thread::get_id() == here;
                      heard.release();
                    });
  for (int told = 1; !heard_here && told < 1000; ++told) {
    report_here(listener.actor, std::make_shared<const TaskDone>(BackwardDone{}));
    BOOST_REQUIRE(heard.try_acquire_for(std::chrono::seconds(10)));
  }
  BOOST_TEST(heard_here);
}

BOOST_AUTO_TEST_CASE(OnlyWhereTheSchedulerHasOneThreadAreLargeMessagesTakenHere) {
  constexpr size_t kLarge = 16 << 20, kSmall = 4 << 10;
  const auto limit_with = [](int64_t threads) {
    caf::actor_system_config config;
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", threads);
    caf::actor_system system(config);
    return most_bytes_here(system);
  };
  BOOST_TEST(limit_with(1) > kLarge);
  BOOST_TEST(limit_with(2) < kLarge);
  BOOST_TEST(limit_with(2) >= kSmall);
}

BOOST_AUTO_TEST_CASE(WhatIsNotOfTheStepsTrafficIsLeftToTheScheduler) {
  std::promise<std::thread::id> taken;
  auto by = taken.get_future();
  Listener listener([&](const Envelope&) { taken.set_value(std::this_thread::get_id()); });
  deliver_here(listener.actor, envelope(Membership{}));
  BOOST_REQUIRE(ready(by));
  BOOST_TEST((by.get() != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(AnActorThatWorksIsNotRunASecondTime) {
  std::promise<void> begun, go_on, done;
  auto has_begun = begun.get_future(), is_done = done.get_future();
  std::atomic<int> inside{0}, most{0}, taken{0};
  Listener listener([&](const Envelope& message) {
    most = std::max(most.load(), ++inside);
    if (std::holds_alternative<Membership>(message.body)) {
      begun.set_value();
      go_on.get_future().wait();
    }
    --inside;
    if (++taken == 11) done.set_value();
  });
  deliver_here(listener.actor, envelope(Membership{}));
  BOOST_REQUIRE(ready(has_begun));
  for (int i = 0; i < 10; ++i) deliver_here(listener.actor, envelope(Pull{}));
  BOOST_TEST(taken == 0);
  go_on.set_value();
  BOOST_TEST(ready(is_done));
  BOOST_TEST(most == 1);
}

BOOST_AUTO_TEST_CASE(AnActorThatHasEndedTakesNothing) {
  std::atomic<int> taken{0};
  Listener listener([&](const Envelope&) { ++taken; });
  {
    caf::scoped_actor self(listener.system);
    caf::anon_send_exit(listener.actor, caf::exit_reason::kill);
    self->wait_for(listener.actor);
  }
  for (int i = 0; i < 2; ++i) deliver_here(listener.actor, envelope(Push{}));
  BOOST_TEST(taken == 0);
}

BOOST_AUTO_TEST_SUITE_END()
