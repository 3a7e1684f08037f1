#include <boost/test/unit_test.hpp>

#include <troupe/ps/control/worker_core.h>

#include <tests/support/said.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(worker_core_rows)

namespace {

constexpr Endpoint kCoordinator{Role::coordinator, 0, 1};
constexpr int64_t kWidth = 4;
constexpr LayerId kTable = 0;

/// Worker 0 of two, a table of 8 rows, four on each of two servers.
class World {
 public:
  explicit World(Policy policy = {Mode::async}) {
    layout = std::make_shared<Layout>(
        make_layout(layers, {policy}, {.servers = 2, .slice_bytes = 64, .fuse_bytes = 0}));
    BOOST_REQUIRE(layout->parcels.size() == 2u);
    core = std::make_unique<WorkerCore>(WorkerOptions{.self = {Role::worker, 0, 1}}, layers);
    join();
  }

  void join() { hear(kCoordinator, Membership{generation, {1, 1}, servers, layout, {}}); }
  void hear(const Endpoint& from, Message body) {
    take(core->handle({from, {Role::worker, 0, 1}, generation, std::move(body)}));
  }
  void take(WorkerCore::Effects effects) {
    for (Envelope& e : effects.send) sent.push_back(std::move(e));
    for (Task& t : effects.tasks) tasks.push_back(std::move(t));
  }
  void work(uint64_t number, Step step, int64_t count = 4, Work::Kind kind = Work::Kind::train) {
    hear(kCoordinator, Work{number, kind, step, step, 8, {0, 0, count}});
  }
  void found(uint64_t number, const std::vector<int32_t>& rows) {
    take(core->rows_found(number, {Tensor::from<int32_t>(rows, {static_cast<int64_t>(rows.size())})}));
  }
  Endpoint server_of(ParcelId parcel) const {
    const ServerId server = layout->parcels[parcel].server;
    return {Role::server, server, servers[server]};
  }
  /// Values of a row are its number.
  void reply(const Pull& pull) {
    const Slice& slice = layout->slices[layout->parcels[pull.parcel].slices.front()];
    std::vector<float> values;
    const auto add = [&](int64_t row) { values.insert(values.end(), kWidth, static_cast<float>(row)); };
    if (pull.rows)
      for (const int32_t row : std::as_const(pull.rows).span<int32_t>()) add(row);
    else
      for (int64_t row = slice.begin / kWidth; row < slice.end / kWidth; ++row) add(row);
    hear(server_of(pull.parcel), PullReply{pull.parcel, pull.step, pull.ticket,
                                           {Tensor::from<float>(values, {static_cast<int64_t>(values.size())})}});
  }
  void acknowledge(const Push& push) { hear(server_of(push.parcel), PushAck{push.sequence, push.parcel, push.step}); }
  /// Each of whose values is its place.
  void compute(Step step, int64_t rows) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows; ++i) values.insert(values.end(), kWidth, static_cast<float>(i));
    take(core->gradient_ready(step, kTable, Tensor::from<float>(values, {rows * kWidth}), 0, true));
    take(core->backward_done(step, {}, 0, 0));
  }

  /// What was said of one kind, and is forgotten.
  template <class M>
  std::vector<M> said() {
    return test::take_said<M>(sent);
  }
  template <class T>
  std::vector<T> given() {
    std::vector<T> found;
    std::erase_if(tasks, [&](const Task& task) {
      const auto* t = std::get_if<T>(&task);
      if (t) found.push_back(*t);
      return t != nullptr;
    });
    return found;
  }
  std::vector<float> weights(const Work& work) const {
    const auto values = core->weights(work)[kTable].span<float>();
    return {values.begin(), values.end()};
  }

  const std::vector<LayerSpec> layers{{"table", 8 * kWidth, {{"table.weight", {8, kWidth}, 0}}, kWidth}};
  std::shared_ptr<const Layout> layout;
  std::unique_ptr<WorkerCore> core;
  Generation generation = 1;
  std::vector<Incarnation> servers{1, 1};
  std::vector<Envelope> sent;
  std::vector<Task> tasks;
};

std::vector<int32_t> rows_of(const Tensor& rows) {
  if (!rows) return {-1};
  const auto numbers = rows.span<int32_t>();
  return {numbers.begin(), numbers.end()};
}

using Rows = std::vector<int32_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(EveryServerIsAskedForTheRowsOfTheBatchThatItHolds) {
  World w;
  w.work(1, 0);
  BOOST_TEST(w.said<Pull>().empty());  // it is not known yet which
  BOOST_TEST(w.given<FindRows>().size() == 1u);
  w.found(1, {1, 3, 4, 7});
  const auto pulls = w.said<Pull>();
  BOOST_REQUIRE(pulls.size() == 2u);
  BOOST_TEST((rows_of(pulls[0].rows) == Rows{1, 3}));
  BOOST_TEST((rows_of(pulls[1].rows) == Rows{4, 7}));
}

BOOST_AUTO_TEST_CASE(TheStepComputesWithTheseRowsAndPushesTheirGradients) {
  World w;
  w.work(1, 0);
  w.found(1, {1, 3, 4});
  for (const Pull& pull : w.said<Pull>()) w.reply(pull);
  const auto forward = w.given<Forward>();
  BOOST_REQUIRE(forward.size() == 1u);
  BOOST_TEST((w.weights(forward[0].work) == std::vector<float>{1, 1, 1, 1, 3, 3, 3, 3, 4, 4, 4, 4}));
  w.compute(0, 3);
  const auto pushes = w.said<Push>();
  BOOST_REQUIRE(pushes.size() == 2u);
  BOOST_TEST((rows_of(pushes[0].rows) == Rows{1, 3}));
  BOOST_TEST((rows_of(pushes[1].rows) == Rows{4}));
  BOOST_TEST(pushes[0].gradients.at(0).count() == 2 * kWidth);
  BOOST_TEST(std::as_const(pushes[1].gradients).at(0).data<float>()[0] == 2);
}

BOOST_AUTO_TEST_CASE(AServerWhoseRowsNobodyNamesHearsOfTheStepAllTheSame) {
  World w;
  w.work(1, 0);
  w.found(1, {6});
  for (const Pull& pull : w.said<Pull>()) w.reply(pull);
  w.compute(0, 1);
  const auto pushes = w.said<Push>();
  BOOST_REQUIRE(pushes.size() == 2u);
  BOOST_TEST((rows_of(pushes[0].rows) == Rows{}));
  BOOST_TEST(pushes[0].samples == 4);
  for (const Push& push : pushes) w.acknowledge(push);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(TheNextStepsRowsAreFoundWhileThisOneRunsAndPulledBehindItsPush) {
  World w;
  w.work(1, 0);
  w.found(1, {0, 5});
  for (const Pull& pull : w.said<Pull>()) w.reply(pull);
  w.given<FindRows>();
  w.work(2, 1);
  BOOST_TEST(w.given<FindRows>().size() == 1u);
  w.found(2, {2});
  BOOST_TEST(w.said<Pull>().empty());
  w.compute(0, 2);
  std::string order;
  for (const Envelope& e : w.sent) {
    if (std::holds_alternative<Push>(e.body)) order += cat("push ", std::get<Push>(e.body).parcel, ", ");
    if (std::holds_alternative<Pull>(e.body)) order += cat("pull ", std::get<Pull>(e.body).parcel, ", ");
  }
  BOOST_TEST(order.find("push 0") < order.find("pull 0"), order);
  BOOST_TEST(order.find("push 1") < order.find("pull 1"), order);
  const auto pulls = w.said<Pull>();
  BOOST_TEST(pulls.size() == 2u);
  BOOST_TEST((rows_of(pulls.at(0).rows) == Rows{2}));
}

// A worker reads what it has written, also where its last push still waits for one before it.
BOOST_AUTO_TEST_CASE(APullWaitsForThePushThatWaits) {
  World w;
  Push first;
  for (Step step = 0; step < 2; ++step) {
    w.work(static_cast<uint64_t>(step) + 1, step);
    w.found(static_cast<uint64_t>(step) + 1, {0, 4});
    for (const Pull& pull : w.said<Pull>()) w.reply(pull);
    w.compute(step, 2);
    if (step > 0) break;
    const auto pushes = w.said<Push>();
    first = pushes.at(0);
    w.acknowledge(pushes.at(1));
  }
  BOOST_TEST(w.said<Push>().size() == 1u);  // parcel 0's waits
  w.work(3, 2);
  w.found(3, {0, 4});
  BOOST_TEST(w.said<Pull>().size() == 1u);
  w.acknowledge(first);
  BOOST_TEST(w.said<Push>().size() == 1u);
  const auto pulls = w.said<Pull>();
  BOOST_REQUIRE(pulls.size() == 1u);
  BOOST_TEST(pulls[0].parcel == 0u);
  BOOST_TEST((rows_of(pulls[0].rows) == Rows{0}));
}

// The step reads nothing again: the order in which servers answered the test's reads is what a replay follows.
BOOST_AUTO_TEST_CASE(ATestReadsAllRowsAndTheStepBehindItTakesItsOwnFromThem) {
  World w;
  w.work(1, 0, 4, Work::Kind::evaluate);
  auto pulls = w.said<Pull>();
  BOOST_REQUIRE(pulls.size() == 2u);
  BOOST_TEST((rows_of(pulls[0].rows) == Rows{-1}));
  for (const Pull& pull : pulls) w.reply(pull);
  const auto tests = w.given<Evaluate>();
  BOOST_REQUIRE(tests.size() == 1u);
  BOOST_TEST(w.weights(tests[0].work).size() == 8u * kWidth);
  w.take(w.core->evaluated({}, 0));
  w.work(2, 0);
  BOOST_TEST(w.given<Forward>().empty());
  w.found(2, {2, 7});
  BOOST_TEST(w.said<Pull>().empty());
  BOOST_TEST((w.weights(w.given<Forward>().at(0).work) == std::vector<float>{2, 2, 2, 2, 7, 7, 7, 7}));
}

BOOST_AUTO_TEST_CASE(AStepWithoutSamplesReadsAndPushesNoRows) {
  World w;
  w.work(1, 0, 0);
  BOOST_TEST(w.given<FindRows>().empty());
  const auto pulls = w.said<Pull>();
  BOOST_TEST(pulls.size() == 2u);
  for (const Pull& pull : pulls) {
    BOOST_TEST((rows_of(pull.rows) == Rows{}));
    w.reply(pull);
  }
  const auto pushes = w.said<Push>();
  BOOST_TEST(pushes.size() == 2u);
  for (const Push& push : pushes) BOOST_TEST((!push.rows && push.gradients.empty()));
}

BOOST_AUTO_TEST_CASE(APullThatWasNotAnsweredIsSaidAgainWithItsRows) {
  World w;
  w.work(1, 0);
  w.found(1, {1, 6});
  w.said<Pull>();
  w.take(w.core->tick());
  const auto pulls = w.said<Pull>();
  BOOST_REQUIRE(pulls.size() == 2u);
  BOOST_TEST((rows_of(pulls[1].rows) == Rows{6}));
}

BOOST_AUTO_TEST_CASE(AnAnswerOfOtherThanTheRowsAskedForIsAFault) {
  World w;
  w.work(1, 0);
  w.found(1, {1, 6});
  const Pull pull = w.said<Pull>().at(0);
  w.hear(w.server_of(pull.parcel), PullReply{pull.parcel, pull.step, pull.ticket, {Tensor::zeros({4 * kWidth})}});
  BOOST_TEST(w.said<Fault>().size() == 1u);
  w.reply(pull);
  BOOST_TEST(w.said<Fault>().empty());
}

BOOST_AUTO_TEST_SUITE_END()
