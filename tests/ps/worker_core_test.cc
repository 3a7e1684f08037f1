#include <boost/test/unit_test.hpp>

#include <troupe/ps/control/worker_core.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(worker_core)

namespace {

constexpr Endpoint kCoordinator{Role::coordinator, 0, 1}, kServer{Role::server, 0, 1};
constexpr int64_t kCount = 16;

/// Worker 1 of two, with one all_reduce layer and verdicts.
class Worker {
 public:
  Worker() : core(options(), {layer()}) { join(1, 0); }

  static LayerSpec layer() { return {"fc1", kCount, {{"fc1.weight", Shape{kCount}, 0}}}; }
  static WorkerOptions options() {
    WorkerOptions o;
    o.self = {Role::worker, 1, 1};
    o.clip_norm = 1;
    return o;
  }

  void join(Generation g, std::optional<Step> rebase) {
    generation = g;
    auto layout = std::make_shared<Layout>(make_layout({layer()}, {{Mode::all_reduce}}, {}));
    hear(kCoordinator, Membership{g, {1, 1}, {1}, layout, rebase});
  }
  void hear(const Endpoint& from, Message body) {
    take(core.handle({from, options().self, generation, std::move(body)}));
  }
  void take(WorkerCore::Effects effects) {
    for (Envelope& e : effects.send) sent.push_back(std::move(e));
    for (Task& t : effects.tasks) tasks.push_back(std::move(t));
  }

  void begin(uint64_t number, Step step) {
    Work work{number};
    work.step = step;
    work.step_samples = 4;
    work.range.count = 2;
    hear(kCoordinator, work);
    for (const Pull& pull : said<Pull>()) {
      PullReply reply{pull.parcel, pull.step, pull.ticket, {Tensor::zeros({kCount})}};
      reply.state = {{0, Tensor::zeros({kCount}), {}, 0}};
      hear(kServer, reply);
    }
    take(core.gradient_ready(step, 0, Tensor::zeros({kCount}), 0, true));
    take(core.backward_done(step, {}, 0, 0));
  }
  void reduce(Step step) { take(core.reduced(step, 0, Tensor::zeros({kCount}), 0, true)); }

  template <class M>
  std::vector<M> said() {
    std::vector<M> messages;
    for (const Envelope& e : sent)
      if (const auto* m = std::get_if<M>(&e.body)) messages.push_back(*m);
    sent.clear();
    return messages;
  }
  size_t applying() const {
    size_t count = 0;
    for (const Task& t : tasks) count += std::holds_alternative<ApplyLocal>(t);
    return count;
  }

  WorkerCore core;
  Generation generation = 1;
  std::vector<Envelope> sent;
  std::vector<Task> tasks;
};

}  // namespace

BOOST_AUTO_TEST_CASE(AVerdictThatDoesNotComeIsAskedForByEveryWorker) {
  Worker worker;
  worker.begin(1, 0);
  worker.reduce(0);
  BOOST_TEST(worker.said<Partial>().empty());  // the lowest worker's is enough
  worker.take(worker.core.tick());
  BOOST_TEST(worker.said<Partial>().size() == 1u);
  worker.hear(kCoordinator, Verdict{0});
  BOOST_TEST(worker.applying() == 1u);
  worker.take(worker.core.tick());
  BOOST_TEST(worker.said<Partial>().empty());
}

BOOST_AUTO_TEST_CASE(ACopyOfAnOldVerdictDoesNotReplaceOneThatCameEarly) {
  Worker worker;
  worker.begin(1, 0);
  worker.reduce(0);
  worker.hear(kCoordinator, Verdict{0});
  worker.take(worker.core.applied_locally(0, 0, {0, Tensor::zeros({kCount}), {}, 1}));
  worker.begin(2, 1);
  worker.hear(kCoordinator, Verdict{1});
  worker.hear(kCoordinator, Verdict{0});
  worker.reduce(1);
  BOOST_TEST(worker.applying() == 2u);
}

BOOST_AUTO_TEST_CASE(AnAnswerThatDoesNotFitTheLayoutIsAFaultAndNotTaken) {
  Worker worker;
  Work work{1};
  work.range.count = 2;
  worker.hear(kCoordinator, work);
  const Pull pull = worker.said<Pull>().at(0);
  PullReply reply{pull.parcel, pull.step, pull.ticket, {Tensor::zeros({kCount + 1})}};
  reply.state = {{0, Tensor::zeros({kCount}), {}, 0}};
  worker.hear(kServer, reply);
  BOOST_TEST(worker.said<Fault>().size() == 1u);
  reply.values = {Tensor::zeros({kCount})};
  reply.state[0].state = {Tensor::zeros({1})};
  worker.hear(kServer, reply);
  BOOST_TEST(worker.said<Fault>().size() == 1u);
  reply.state.clear();
  worker.hear(kServer, reply);
  BOOST_TEST(worker.said<Fault>().size() == 1u);
  BOOST_TEST(worker.tasks.empty());
}

BOOST_AUTO_TEST_CASE(AMembershipOfAnotherModelIsAFaultAndNotTaken) {
  Worker worker;
  LayerSpec other = Worker::layer();
  other.count = kCount + 1;
  other.params[0].shape = Shape{kCount + 1};
  auto layout = std::make_shared<Layout>(make_layout({other}, {{Mode::all_reduce}}, {}));
  worker.sent.clear();
  worker.generation = 2;
  worker.hear(kCoordinator, Membership{2, {1, 1}, {1}, layout, 0});
  BOOST_TEST(worker.said<Fault>().size() == 1u);
  worker.hear(kCoordinator, Membership{2, {1}, {1}, layout, 0});
  BOOST_TEST(worker.said<Fault>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AfterARebaseNothingOldIsBroughtHome) {
  Worker worker;
  worker.begin(1, 0);
  worker.reduce(0);
  worker.hear(kCoordinator, Verdict{0});
  worker.take(worker.core.applied_locally(0, 0, {0, Tensor::zeros({kCount}), {}, 1}));
  worker.join(2, 7);  // steps 1 to 6 were taken under another policy
  worker.said<WorkDone>();
  Work upload{2, Work::Kind::upload, 7};
  worker.hear(kCoordinator, upload);
  const bool installs =
      std::ranges::any_of(worker.sent, [](const Envelope& e) { return std::holds_alternative<Install>(e.body); });
  BOOST_TEST(!installs);
  BOOST_TEST(worker.said<WorkDone>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(ACoordinatorWhosePlaceAnotherHasTakenEndsNobody) {
  Worker worker;
  worker.join(1'000'001, {});
  const Endpoint self = Worker::options().self;
  BOOST_TEST(!worker.core.handle({kCoordinator, self, 7, Finish{}}).finished);
  BOOST_TEST(worker.core.handle({kCoordinator, self, 1'000'001, Finish{}}).finished);
}

BOOST_AUTO_TEST_SUITE_END()
