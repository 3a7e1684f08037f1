#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <mutex>

#include <tests/support/late_device.h>
#include <troupe/actors/host_reducer.h>

using namespace troupe;

namespace {

constexpr int64_t kCount = 100;

/// Workers of one host, each with a device and a queue, and what was reported to each.
class Host {
 public:
  explicit Host(size_t workers, std::chrono::milliseconds patience = std::chrono::seconds(60))
      : backend(std::make_shared<test::LateBackend>(1)), reports_(workers) {
    for (size_t w = 0; w < workers; ++w) {
      queues_.push_back(make_cpu_queue(cat("member ", w)));
      members.push_back(make_host_reducer({.backend = backend,
                                           .queue = queues_.back(),
                                           .layers = {{"fc1", kCount, {{"fc1.weight", {kCount}, 0}}}},
                                           .track = {},
                                           .patience = patience}));
    }
  }
  ~Host() {
    for (const auto& member : members)
      if (member) member->abort("the test is over");
    members.clear();
    queues_.clear();
  }

  Reducer::Report report(size_t w) {
    return [this, w](TaskDone done) {
      std::lock_guard lock(mutex_);
      reports_[w].push_back(std::move(done));
      changed_.notify_all();
    };
  }
  /// The next thing that was reported to a worker.
  template <class T>
  T next(size_t w) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::seconds(30), [&] { return !reports_[w].empty(); });
    BOOST_REQUIRE(came);
    TaskDone done = std::move(reports_[w].front());
    reports_[w].erase(reports_[w].begin());
    if (const auto* failed = std::get_if<TaskFailed>(&done)) BOOST_TEST_MESSAGE(failed->what);
    BOOST_REQUIRE(std::holds_alternative<T>(done));
    return std::get<T>(std::move(done));
  }
  bool silent(size_t w) {
    std::lock_guard lock(mutex_);
    return reports_[w].empty();
  }

  /// All of them; they begin together with the highest of these steps.
  void join(ps::Generation generation, std::vector<ps::Step> first, std::vector<uint64_t> plans = {}) {
    members[0]->make_group({generation}, report(0));
    const GroupKnown made = next<GroupKnown>(0);
    plans.resize(members.size());
    for (size_t w = 0; w < members.size(); ++w)
      members[w]->join_group(
          {generation, static_cast<int>(w), static_cast<int>(members.size()), made.id, first[w], plans[w], {{0}},
           {{0}}},
          report(w));
    for (size_t w = 0; w < members.size(); ++w) next<GroupKnown>(w);
  }
  /// A group that all have joined.
  void begin(ps::Generation generation, ps::Step step) {
    join(generation, std::vector<ps::Step>(members.size(), step));
    for (size_t w = 0; w < members.size(); ++w) next<GroupJoined>(w);
  }
  void reduce(size_t w, ps::Generation generation, ps::Step step, float value, int64_t samples, bool finite = true) {
    Tensor gradient = Tensor::empty({kCount});
    for (float& x : gradient.span<float>()) x = value;
    ps::Reduce task{step, 0, gradient, {}, ps::HostShare{generation, samples, finite}};
    members[w]->reduce({std::move(task)}, report(w));
  }
  /// Two members have joined and summed step 0: worker w has brought w + 1.
  void sum_first_step() {
    begin(1, 0);
    reduce(0, 1, 0, 1, 20);
    reduce(1, 1, 0, 2, 12);
    for (size_t w = 0; w < 2; ++w) next<ps::HostSum>(w);
  }

  /// The step's weights, all of this value, which the lowest has in two parts.
  void broadcast(size_t w, ps::Generation generation, ps::Step step, float value) {
    ps::Broadcast task{step, generation, {0}, {}};
    if (w == 0)
      for (const int64_t begin : {int64_t{0}, int64_t{64}}) {
        Tensor part = Tensor::empty({begin == 0 ? 64 : kCount - 64});
        for (float& x : part.span<float>()) x = value;
        task.parts.push_back({0, begin, part});
      }
    members[w]->broadcast(std::move(task), report(w));
  }
  /// What each gets.
  std::vector<Tensor> give(ps::Generation generation, ps::Step step, float value) {
    std::vector<Tensor> got;
    for (size_t w = 0; w < members.size(); ++w) broadcast(w, generation, step, value);
    for (size_t w = 0; w < members.size(); ++w) {
      const auto weights = next<ps::HostWeights>(w);
      BOOST_TEST(weights.step == step);
      got.push_back(weights.layers.at(0).second);
    }
    return got;
  }

  std::shared_ptr<test::LateBackend> backend;
  std::vector<std::shared_ptr<Reducer>> members;

 private:
  std::vector<std::shared_ptr<Executor>> queues_;  // a task may hold the last of a member
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<TaskDone>> reports_;
};

float first_of(const ps::HostSum& sum) { return std::as_const(sum.layers.at(0).second).data<float>()[kCount - 1]; }

}  // namespace

BOOST_AUTO_TEST_SUITE(host_reducer)

BOOST_AUTO_TEST_CASE(MembersAgreeOnTheHighestFirstStep) {
  Host host(3);
  host.join(4, {7, 0, 9});
  for (size_t w = 0; w < 3; ++w) {
    const auto joined = host.next<GroupJoined>(w);
    BOOST_TEST(joined.from == 9);
    BOOST_TEST(joined.generation == 4u);
  }
}

BOOST_AUTO_TEST_CASE(TheLowestGetsTheSumAndAllTheCountOfSamples) {
  Host host(2);
  host.begin(1, 0);
  host.reduce(0, 1, 0, 1, 20);
  host.reduce(1, 1, 0, 2, 12);
  const auto lowest = host.next<ps::HostSum>(0), other = host.next<ps::HostSum>(1);
  BOOST_TEST(first_of(lowest) == 3.f);
  BOOST_TEST(!other.layers.at(0).second);
  for (const ps::HostSum& sum : {lowest, other}) {
    BOOST_TEST(sum.samples == 32);
    BOOST_TEST(sum.finite);
    BOOST_TEST(!sum.alone);
  }
}

BOOST_AUTO_TEST_CASE(OneThatIsNotFiniteIsToldToAll) {
  Host host(2);
  host.begin(1, 0);
  host.reduce(0, 1, 0, 1, 20);
  host.reduce(1, 1, 0, 0, 0, false);
  for (size_t w = 0; w < 2; ++w) BOOST_TEST(!host.next<ps::HostSum>(w).finite);
}

// Worker 1 never brings its part.
BOOST_AUTO_TEST_CASE(WhoeverWaitsIsWokenByLeavingAndAnsweredWithItsOwnGradients) {
  Host host(2);
  host.begin(1, 0);
  host.reduce(0, 1, 0, 5, 20);
  host.members[0]->leave_group(host.report(0));
  const auto alone = host.next<ps::HostSum>(0);
  BOOST_TEST(alone.alone);
  BOOST_TEST(alone.samples == 20);
  BOOST_TEST(first_of(alone) == 5.f);
}

BOOST_AUTO_TEST_CASE(WhatHasBeenSummedIsAnsweredAgainByWhoeverLeaves) {
  Host host(2);
  host.sum_first_step();
  host.members[1]->leave_group(host.report(1));
  const auto alone = host.next<ps::HostSum>(1);
  BOOST_TEST(alone.alone);
  BOOST_TEST(alone.samples == 12);
  BOOST_TEST(first_of(alone) == 2.f);
}

// It would push its own while the sum, with it in, may be on its way.
BOOST_AUTO_TEST_CASE(WhoeverIsLeftWaitsForTheCoordinatorsWord) {
  Host host(2);
  host.begin(1, 0);
  host.members[1].reset();
  host.reduce(0, 1, 0, 5, 20);
  host.members[0]->leave_group(host.report(0));
  BOOST_TEST(host.next<ps::HostSum>(0).alone);
  host.members[0]->make_group({2}, host.report(0));
  BOOST_TEST(host.next<GroupKnown>(0).generation == 2u);
}

BOOST_AUTO_TEST_CASE(WithoutOneItEndsAndSaysWhy) {
  Host host(2, std::chrono::milliseconds(20));
  host.begin(1, 0);
  host.members[1].reset();
  host.reduce(0, 1, 0, 5, 20);
  const std::string why = host.next<TaskFailed>(0).what;
  BOOST_TEST(why.find("no new group came within 20 ms: ") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(ABucketOfAnOldGenerationGoesAlone) {
  Host host(2);
  host.begin(1, 0);
  for (size_t w = 0; w < 2; ++w) host.members[w]->leave_group(host.report(w));
  host.begin(2, 1);
  host.reduce(0, 1, 0, 5, 20);
  BOOST_TEST(host.next<ps::HostSum>(0).alone);
}

BOOST_AUTO_TEST_CASE(WeightsOfTheLowestReachTheDevicesOfAll) {
  Host host(3);
  host.begin(1, 0);
  for (const Tensor& weights : host.give(1, 1, 7)) {
    BOOST_TEST(weights.count() == kCount);
    BOOST_TEST((weights.device().kind == DeviceKind::cuda));
    for (const int64_t i : {int64_t{0}, int64_t{63}, int64_t{64}, kCount - 1})
      BOOST_TEST(std::as_const(weights).data<float>()[i] == 7.f);
  }
}

// Steps that were captured are replayed where they find their weights in the same places.
BOOST_AUTO_TEST_CASE(WeightsLieInTwoPlacesInTurn) {
  Host host(2);
  host.begin(1, 0);
  std::vector<const void*> places;
  for (ps::Step step = 1; step < 5; ++step) places.push_back(host.give(1, step, 1)[1].raw());
  BOOST_TEST(places[0] != places[1]);
  BOOST_TEST(places[0] == places[2]);
  BOOST_TEST(places[1] == places[3]);
}

BOOST_AUTO_TEST_CASE(WeightsThatAreReadAreNotWritten) {
  Host host(2);
  host.begin(1, 0);
  const Tensor held = host.give(1, 1, 1)[1];
  for (ps::Step step = 2; step < 5; ++step) host.give(1, step, 2);
  BOOST_TEST(held.data<float>()[0] == 1.f);
}

BOOST_AUTO_TEST_CASE(WhatHasBeenGivenComesToHostMemoryWhenTheGroupHasEnded) {
  Host host(2);
  host.begin(1, 0);
  const Tensor given = host.give(1, 1, 7)[1];
  for (size_t w = 0; w < 2; ++w) host.members[w]->leave_group(host.report(w));
  ps::Fetch fetch;
  fetch.layers.emplace_back(0, ps::SliceState{}).second.values = given;
  host.members[1]->fetch(fetch, host.report(1));
  const auto done = host.next<FetchDone>(1);
  BOOST_TEST_REQUIRE(done.layers.size() == 1u);
  const Tensor values = done.layers[0].second.values;
  BOOST_TEST((values.device().kind == DeviceKind::cpu));
  BOOST_TEST(values.data<float>()[kCount - 1] == 7.f);
}

BOOST_AUTO_TEST_CASE(WhoeverWaitsForWeightsIsWokenByLeavingAndGetsNone) {
  for (const size_t lost : {0u, 1u}) {
    Host host(2);
    const size_t left = 1 - lost;
    host.begin(1, 0);
    host.members[lost].reset();
    host.broadcast(left, 1, 1, 7);
    host.members[left]->leave_group(host.report(left));
    host.members[left]->make_group({2}, host.report(left));
    BOOST_TEST(host.next<GroupKnown>(left).generation == 2u);
  }
}

// The step's gradients are kept until the weights that follow have come.
BOOST_AUTO_TEST_CASE(WhatHasBeenSummedIsAnsweredAgainByWhoeverWaitsForWeights) {
  Host host(2);
  host.sum_first_step();
  host.broadcast(1, 1, 1, 7);
  host.members[1]->leave_group(host.report(1));
  BOOST_TEST(first_of(host.next<ps::HostSum>(1)) == 2.f);
}

BOOST_AUTO_TEST_CASE(WeightsForAnOldGenerationAreNotGiven) {
  Host host(2);
  host.begin(1, 0);
  for (size_t w = 0; w < 2; ++w) host.members[w]->leave_group(host.report(w));
  host.begin(2, 1);
  host.broadcast(1, 1, 1, 7);
  for (const Tensor& weights : host.give(2, 2, 8)) BOOST_TEST(std::as_const(weights).data<float>()[0] == 8.f);
}

// What a device is asked for may wait for a kernel there, which waits for the other member.
BOOST_AUTO_TEST_CASE(OnceTheyHaveJoinedNoMemoryIsTaken) {
  Host host(2);
  host.begin(1, 0);
  host.backend->memory->limit = 0;
  for (ps::Step step = 0; step < 3; ++step) {
    host.reduce(0, 1, step, 1, 20);
    host.reduce(1, 1, step, 2, 12);
    for (size_t w = 0; w < 2; ++w) BOOST_TEST(host.next<ps::HostSum>(w).samples == 32);
    for (const Tensor& weights : host.give(1, step + 1, 7)) BOOST_TEST(std::as_const(weights).data<float>()[0] == 7.f);
  }
}

BOOST_AUTO_TEST_CASE(WithoutMemoryForItTheLayerIsNamedAsTheyJoin) {
  for (const auto& [limit, what] : {std::pair<size_t, const char*>{0, "128 gradients"}, {600, "112 weights"}}) {
    Host host(1);
    host.backend->memory->limit = limit;
    host.members[0]->join_group({1, 0, 1, "id", 0, 0, {{0}}, {{0}}}, host.report(0));
    const std::string why = host.next<TaskFailed>(0).what;
    BOOST_TEST(why.find(cat("joining the devices of this host: no memory for ", what, " from layer fc1 on: ")) == 0u,
               why);
  }
}

BOOST_AUTO_TEST_CASE(JoiningEndsWhenTheGroupIsLeftBeforeAllHaveCome) {
  Host host(2);
  host.members[0]->make_group({1}, host.report(0));
  const GroupKnown made = host.next<GroupKnown>(0);
  host.members[0]->join_group({1, 0, 2, made.id, 0, 0, {{0}}, {{0}}}, host.report(0));
  BOOST_TEST(host.next<GroupKnown>(0).id == made.id);  // it waits for the other
  host.members[0]->leave_group(host.report(0));
  host.members[0]->make_group({2}, host.report(0));
  BOOST_TEST(host.next<GroupKnown>(0).generation == 2u);
}

BOOST_AUTO_TEST_CASE(MembersThatPlanOtherCallsHearItAtTheStart) {
  Host host(2);
  host.join(1, {0, 0}, {17, 18});
  for (size_t w = 0; w < 2; ++w)
    BOOST_TEST(host.next<TaskFailed>(w).what.find("do not plan the same collectives") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
