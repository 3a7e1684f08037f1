#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <map>

#include <caf/all.hpp>

#include <troupe/actors/combine_pushes.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using ps::test::ShardWorld;

BOOST_AUTO_TEST_SUITE(combine_pushes)

namespace {

/// Where a sum goes: it is held up there, and looks a while whether the system ends without it.
class Slow final : public ps::Transport {
 public:
  void attach(const ps::Endpoint& endpoint, Sink sink) override { sinks[endpoint] = std::move(sink); }
  void detach(const ps::Endpoint& endpoint) override { sinks.erase(endpoint); }
  bool reliable() const override { return false; }
  void send(ps::Envelope envelope) override {
    const auto* push = std::get_if<ps::Push>(&envelope.body);
    if (!push || push->samples < 2) return;
    summed.set_value();
    go_on.get_future().wait();
    left_behind = ended.get_future().wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
    done = true;
  }

  std::map<ps::Endpoint, Sink> sinks;
  std::promise<void> summed, go_on, ended;
  std::atomic<bool> left_behind{false}, done{false};
};

}  // namespace

// The thread that sums uses the transport, whose last owner may be the sum itself.
BOOST_AUTO_TEST_CASE(TheActorsSystemWaitsForASumWhoseTransportIsGone) {
  ShardWorld world{{{ps::Mode::sync, 0}}, 2};
  const ps::Endpoint server{ps::Role::server, 0, 1};
  ps::CoordinatorOptions options;
  options.policies = {{ps::Mode::all_reduce, 0}};
  const auto slow = std::make_shared<Slow>();
  {
    caf::actor_system_config config;
    caf::actor_system system(config);
    auto transport = troupe::combine_pushes(system, slow, options, false);
    const auto worker = [&](ps::WorkerId w) { return ps::Endpoint{ps::Role::worker, w, world.workers[w]}; };
    const auto say = [&](ps::WorkerId w, ps::Message body) {
      transport->send({worker(w), server, world.generation, std::move(body)});
    };
    for (ps::WorkerId w = 0; w < 2; ++w) {
      transport->attach(worker(w), [](const ps::EnvelopePtr&) {});
      ps::Envelope membership = world.membership();
      membership.to = worker(w);
      slow->sinks[worker(w)](std::make_shared<const ps::Envelope>(membership));
    }
    for (ps::Step step = 0; step < 2; ++step) {  // each worker's first push goes for itself
      for (ps::WorkerId w = 0; w < 2; ++w) say(w, ps::Pull{0, step, 0});
      for (ps::WorkerId w = 0; w < 2; ++w)
        say(w,
            ps::Push{static_cast<uint64_t>(step) + 1, 0, step, step, 1, {ShardWorld::filled(ShardWorld::kCount, 1)}});
    }
    slow->summed.get_future().wait();
    for (ps::WorkerId w = 0; w < 2; ++w) transport->detach(worker(w));
    transport.reset();
    slow->go_on.set_value();
  }
  slow->ended.set_value();
  BOOST_TEST(slow->done);
  BOOST_TEST(!slow->left_behind);
}

BOOST_AUTO_TEST_SUITE_END()
