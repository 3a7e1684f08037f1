#include <boost/test/unit_test.hpp>

#include <deque>

#include <troupe/ps/control/worker_core.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(starved_push)

namespace {

/// A worker and its server, between which the pushes and pulls of one parcel move only when nothing else can: the worst
/// that a network with urgencies may do.
class Starved {
 public:
  Starved(size_t layers, ParcelId starved)
      : world_(std::vector<Policy>(layers, Policy{Mode::async}), 1),
        worker_({world_.worker(0), kCoordinator}, world_.layout->layers),
        starved_(starved) {
    world_.run();
    take(worker_.handle({kCoordinator, world_.worker(0), 1, world_.membership().body}));
  }

  void run(Step steps) {
    while (done_ < steps) {
      BOOST_TEST_REQUIRE(!(sent_.empty() && late_.empty()));
      auto& next = sent_.empty() ? late_ : sent_;
      const Envelope e = next.front();
      next.pop_front();
      for (const Envelope& answer : world_.shard->handle(e)) {
        if (const auto* ack = std::get_if<PushAck>(&answer.body)) unacked_.erase(ack->sequence);
        if (const auto* refusal = std::get_if<Refused>(&answer.body)) BOOST_FAIL(refusal->detail);
        take(worker_.handle(answer));
      }
    }
  }
  Sequence widest() const { return widest_; }

 private:
  void take(WorkerCore::Effects effects) {
    for (Envelope& e : effects.send) said(std::move(e));
    for (const Task& task : effects.tasks) {
      const auto* backward = std::get_if<Backward>(&task);
      if (!backward) continue;
      const Step step = backward->work.step;
      for (size_t layer = world_.layout->layers.size(); layer-- > 0;)
        take(worker_.gradient_ready(step, static_cast<LayerId>(layer), ShardWorld::filled(ShardWorld::kCount, 1), 0,
                                    true));
      take(worker_.backward_done(step, {0, 0, 1}, 0, 0));
    }
  }

  void said(Envelope e) {
    if (const auto* asked = std::get_if<WorkRequest>(&e.body)) {
      Work work;
      work.number = asked->number;
      work.step = work.schedule_step = static_cast<Step>(asked->number) - 1;
      work.range = {0, work.step, 1};
      return take(worker_.handle({kCoordinator, e.from, 1, work}));
    }
    if (const auto* done = std::get_if<WorkDone>(&e.body)) {
      ++done_;
      return take(worker_.handle({kCoordinator, e.from, 1, WorkDoneAck{done->number}}));
    }
    ParcelId parcel = starved_ + 1;
    if (const auto* push = std::get_if<Push>(&e.body)) {
      parcel = push->parcel;
      unacked_.insert(push->sequence);
      widest_ = std::max(widest_, *unacked_.rbegin() - *unacked_.begin());
    }
    if (const auto* pull = std::get_if<Pull>(&e.body)) parcel = pull->parcel;
    if (e.to.role == Role::server) (parcel == starved_ ? late_ : sent_).push_back(std::move(e));
  }

  ShardWorld world_;
  WorkerCore worker_;
  ParcelId starved_;
  std::deque<Envelope> sent_, late_;
  std::set<Sequence> unacked_;
  Sequence widest_ = 0;
  Step done_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(AnAsynchronousPushThatEverythingOvertakesIsNeverRefused) {
  for (const size_t layers : {2, 40, 200})
    for (const ParcelId starved : {size_t{0}, layers / 2, layers - 1}) {
      Starved run(layers, static_cast<ParcelId>(starved));
      run.run(50);
      BOOST_TEST(run.widest() < 2 * layers);  // as ps/param/shard.cc counts on
    }
}

BOOST_AUTO_TEST_SUITE_END()
