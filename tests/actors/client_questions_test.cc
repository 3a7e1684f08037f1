#include <boost/test/unit_test.hpp>

#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/coordinator.h>
#include <troupe/actors/system_config.h>
#include <troupe/ps/transport/memory_transport.h>

using namespace troupe;
using namespace troupe::ps;

// What clients, as `troupe status` and a scraper, cost a coordinator.
BOOST_AUTO_TEST_SUITE(client_questions)

namespace {

constexpr Endpoint kCoordinator{Role::coordinator, 0, 1}, kClient{Role::client, 0, 3};

/// Counts what is kept, and keeps the coordinator waiting for `go` before its first input.
class CountedJournal final : public Journal {
 public:
  Status append(const CoordinatorInput& input) override {
    go.wait();
    const auto* heard = std::get_if<CoordinatorInput::Heard>(&input.what);
    if (heard && heard->envelope->from.role == Role::client) ++of_clients;
    return {};
  }
  bool long_enough() const override { return false; }
  Status begin_anew(const CoordinatorCore&) override { return {}; }
  Status discard() override { return {}; }

  std::latch go{1};
  std::atomic<int> of_clients{0};
};

class Lab {
 public:
  Lab() {
    CoordinatorOptions options;
    options.layers = {{"fc1", 32, {{"fc1.weight", {32}, 0}}}};
    options.policies = {{Mode::sync}};
    options.dealer = {.train_samples = 4, .epochs = 1, .global_batch = 4, .worker_batch = {2, 2}};
    CoordinatorParts parts;
    parts.core = CoordinatorCore::make(options).value();
    parts.journal = journal;
    parts.transport = transport;
    parts.observer = std::make_shared<RunObserver>();
    transport->attach(kClient, [this](EnvelopePtr envelope) {
      std::lock_guard lock(mutex_);
      answers_.push_back(std::get<StatusReply>(envelope->body).json);
      came_.notify_all();
    });
    actor_ = spawn_coordinator(system_, std::move(parts));
  }
  ~Lab() { caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown); }

  void ask(Message question) { transport->send({kClient, kCoordinator, 0, std::move(question)}); }
  /// The last answer, once there are so many.
  std::string wait(size_t count) {
    std::unique_lock lock(mutex_);
    const bool came = came_.wait_for(lock, std::chrono::seconds(20), [&] { return answers_.size() >= count; });
    BOOST_REQUIRE_MESSAGE(came, answers_.size() << " answers of " << count);
    return answers_.back();
  }
  size_t answers() {
    std::lock_guard lock(mutex_);
    return answers_.size();
  }

  std::shared_ptr<CountedJournal> journal = std::make_shared<CountedJournal>();
  std::shared_ptr<MemoryTransport> transport = std::make_shared<MemoryTransport>();

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> answers_;
  SystemConfig config_{2};
  caf::actor_system system_{config_};
  CoordinatorActor actor_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(AQuestionIsAnsweredAndNotKept) {
  Lab lab;
  lab.journal->go.count_down();
  for (size_t i = 1; i <= 5; ++i) {
    lab.ask(StatusRequest{});
    BOOST_TEST(lab.wait(i).starts_with("{"));
  }
  lab.ask(WorkDoneAck{1});  // of a client that is none
  lab.ask(StatusRequest{});
  lab.wait(6);
  BOOST_TEST(lab.journal->of_clients == 0);
}

BOOST_AUTO_TEST_CASE(AStopIsKeptOnceHoweverOftenItIsSaid) {
  Lab lab;
  lab.journal->go.count_down();
  for (size_t i = 1; i <= 5; ++i) {
    lab.ask(StopRequest{});
    lab.wait(i);
  }
  BOOST_TEST(lab.journal->of_clients == 1);
}

BOOST_AUTO_TEST_CASE(WhatWaitsOfClientsIsBoundedHoweverMuchTheySay) {
  Lab lab;
  for (int i = 0; i < 10000; ++i) lab.ask(StatusRequest{});  // while it is at its first input
  lab.journal->go.count_down();
  lab.wait(64);
  lab.ask(StopRequest{});  // there is room again, and what comes behind them is heard
  lab.wait(65);
  BOOST_TEST(lab.answers() == 65U);
}

BOOST_AUTO_TEST_SUITE_END()
