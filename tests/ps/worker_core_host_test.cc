#include <boost/test/unit_test.hpp>

#include <set>

#include <troupe/ps/control/worker_core.h>
#include <troupe/ps/param/combined_push.h>

#include <tests/support/said.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(worker_core_host)

namespace {

constexpr Endpoint kCoordinator{Role::coordinator, 0, 1}, kServer{Role::server, 0, 1};
constexpr int64_t kCount = 16;

Tensor filled(float value) {
  Tensor t = Tensor::empty({kCount});
  for (float& x : t.span<float>()) x = value;
  return t;
}

/// Worker `self` of three, of whom 0 and 1 are on one host. Layers fc1 and fc2 are added up there, fc3 is not.
class World {
 public:
  explicit World(WorkerId self, bool skip_non_finite = false, bool broadcasts = true) : self_(self) {
    std::vector<LayerSpec> layers;
    for (const char* name : {"fc1", "fc2", "fc3"})
      layers.push_back({name, kCount, {{cat(name, ".weight"), {kCount}, 0}}});
    layout_ =
        std::make_shared<Layout>(make_layout(layers, {{Mode::sync}, {Mode::sync}, {Mode::sync}}, {.fuse_bytes = 0}));
    WorkerOptions options;
    options.self = {Role::worker, self, 1};
    options.bucket_bytes = 4 * kCount;
    options.device = "cuda";
    options.host_layers = {0, 1};
    options.skip_non_finite = skip_non_finite;
    options.broadcasts = broadcasts;
    core = std::make_unique<WorkerCore>(options, layers);
    join(1, 0);
  }

  void join(Generation generation, std::optional<Step> rebase = {}, Incarnation server = 1) {
    generation_ = generation;
    hear(kCoordinator, Membership{generation, {1, 1, 1}, {server}, layout_, rebase});
  }
  void hear(const Endpoint& from, Message body) {
    take(core->handle({from, {Role::worker, self_, 1}, generation_, std::move(body)}));
  }
  void take(WorkerCore::Effects effects) {
    for (Envelope& e : effects.send) sent.push_back(std::move(e));
    for (Task& t : effects.tasks) tasks.push_back(std::move(t));
  }

  /// The group is there; its members begin with step `from`.
  void group(Step from = 0) {
    hear(kCoordinator, CollectiveId{"", {0, 1}, "key"});
    take(core->group_joined(generation_, from));
  }
  void work(uint64_t number, Step step, int64_t count = 4) {
    hear(kCoordinator, Work{number, Work::Kind::train, step, step, 12, {0, 0, count}});
  }
  /// Answers every pull of this step that was said.
  void reply(Step step) {
    for (const Pull& pull : said<Pull>())
      if (pull.step == step) hear(kServer, PullReply{pull.parcel, step, pull.ticket, {filled(0)}});
  }
  void sum(Step step, float value, int64_t samples, bool finite = true) {
    for (const LayerId layer : {1u, 0u})
      take(core->summed_on_host({step, {{layer, self_ == 0 ? filled(value) : Tensor{}}}, samples, finite}));
  }
  /// Weights of `step` that came through the group.
  void give(Step step, std::vector<LayerId> layers = {0, 1}, float value = 0) {
    HostWeights weights{step, 1, {}};
    for (const LayerId layer : layers) weights.layers.emplace_back(layer, filled(value));
    take(core->weights_given(weights));
  }
  void alone(Step step, float value, int64_t samples) {
    for (const LayerId layer : {1u, 0u})
      take(core->summed_on_host({step, {{layer, filled(value)}}, samples, true, true}));
  }
  /// Ends the backward pass; fc3 goes its own way.
  void backward(Step step) {
    take(core->gradient_ready(step, 2, filled(1), 1, true));
    take(core->backward_done(step, {1, 2, 4}, 0, 0));
  }
  /// Up to the sums of the group.
  void begin(Step step) {
    work(static_cast<uint64_t>(step) + 1, step);
    reply(step);
    backward(step);
  }
  /// A step of a group that is there, up to its sums; fc3's push is acknowledged.
  void begin_together() {
    group();
    begin(0);
    acknowledge(said<Push>());
  }
  /// The second step of a group, of which layer 0's weights have come, and fc3's.
  void begin_second() {
    begin_together();
    sum(0, 3, 10);
    acknowledge(sums());
    work(2, 1);
    reply(1);
    tasks.clear();
    give(1, {0}, 7);
  }
  Work second() const { return {2, Work::Kind::train, 1, 1, 12, {0, 0, 4}}; }
  /// Parcels of the host that were asked for.
  std::vector<ParcelId> pulled(Step step) {
    std::vector<ParcelId> parcels;
    for (const Pull& pull : said<Pull>())
      if (pull.step == step && pull.parcel != 2) parcels.push_back(pull.parcel);
    return parcels;
  }
  float weight(LayerId layer) const { return std::as_const(core->weights(second())[layer]).data<float>()[0]; }
  void acknowledge(const std::vector<Push>& pushes) {
    for (const Push& push : pushes) hear(kServer, PushAck{push.sequence, push.parcel, push.step});
  }

  template <class M>
  std::vector<M> said() {
    return test::take_said<M>(sent);
  }
  /// Pushes of the layers of the host.
  std::vector<Push> sums() {
    auto pushes = said<Push>();
    std::erase_if(pushes, [](const Push& push) { return push.parcel == 2; });
    return pushes;
  }
  template <class T>
  std::vector<T> given() {
    std::vector<T> found;
    std::erase_if(tasks, [&](const Task& task) {
      if (const auto* t = std::get_if<T>(&task)) found.push_back(*t);
      return std::holds_alternative<T>(task);
    });
    return found;
  }

  std::unique_ptr<WorkerCore> core;
  std::vector<Envelope> sent;
  std::vector<Task> tasks;

 private:
  WorkerId self_;
  Generation generation_ = 1;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(NoBackwardPassBeginsBeforeTheGroupIsJoined) {
  World w(1);
  BOOST_TEST(w.said<CollectiveId>().at(0).device == "cuda");
  w.work(1, 0);
  w.reply(0);
  BOOST_TEST(w.given<Forward>().size() == 3u);
  BOOST_TEST(w.given<Backward>().empty());
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, "key"});
  const auto joins = w.given<JoinGroup>();
  BOOST_TEST_REQUIRE(joins.size() == 1u);
  BOOST_TEST(joins[0].rank == 1);
  BOOST_TEST(joins[0].size == 2);
  BOOST_TEST(joins[0].id == "key");
  BOOST_TEST(w.given<Backward>().empty());
  w.take(w.core->group_joined(1, 0));
  const auto backwards = w.given<Backward>();
  BOOST_TEST_REQUIRE(backwards.size() == 1u);
  BOOST_TEST((backwards[0].stay == std::vector<size_t>{0, 1}));
  BOOST_TEST_REQUIRE(backwards[0].buckets.size() == 2u);
  BOOST_TEST(backwards[0].buckets[0].at(0).layer == 1u);
  BOOST_TEST_REQUIRE(backwards[0].buckets[0].at(0).host.has_value());
  BOOST_TEST(backwards[0].buckets[0].at(0).host->samples == 4);
}

BOOST_AUTO_TEST_CASE(TheLowestMakesTheIdOnceAndSaysItUntilItIsAnswered) {
  World w(0);
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, ""});
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, ""});
  BOOST_TEST(w.given<MakeGroup>().size() == 1u);
  w.said<CollectiveId>();
  w.take(w.core->group_known(1, "key"));
  BOOST_TEST(w.said<CollectiveId>().at(0).id == "key");
  w.take(w.core->tick());
  BOOST_TEST(w.said<CollectiveId>().at(0).id == "key");
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, "key"});
  BOOST_TEST(w.given<JoinGroup>().size() == 1u);
  BOOST_TEST(w.given<MakeGroup>().empty());
}

BOOST_AUTO_TEST_CASE(AMemberSaysTheIdWhileItWaitsForTheOthers) {
  World w(1);
  w.said<CollectiveId>();
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, "key"});
  w.said<CollectiveId>();
  w.take(w.core->tick());
  BOOST_TEST(w.said<CollectiveId>().empty());  // its thread has not begun
  w.take(w.core->group_known(1, "key"));
  BOOST_TEST(w.said<CollectiveId>().at(0).id == "key");
  w.take(w.core->tick());
  BOOST_TEST(w.said<CollectiveId>().at(0).id == "key");
}

BOOST_AUTO_TEST_CASE(AMemberSaysThatItHasJoinedUntilItIsAnswered) {
  World w(1);
  w.group();
  BOOST_TEST(w.said<CollectiveId>().back().joined);
  w.take(w.core->tick());
  BOOST_TEST(w.said<CollectiveId>().back().joined);
  w.hear(kCoordinator, CollectiveId{"", {0, 1}, "", true});
  w.take(w.core->tick());
  BOOST_TEST(w.said<CollectiveId>().empty());
}

BOOST_AUTO_TEST_CASE(ItTakesPartFromTheStepOnThatTheCoordinatorSays) {
  for (const auto& [said, first] : {std::pair<Step, Step>{0, 1}, {1, 1}, {3, 3}}) {
    World w(1);
    w.begin_together();
    w.alone(0, 1, 4);
    w.join(2);
    w.hear(kCoordinator, CollectiveId{"", {0, 1}, "key", false, said});
    const auto joins = w.given<JoinGroup>();
    BOOST_TEST_REQUIRE(joins.size() == 2u);
    BOOST_TEST(joins[1].first == first);
  }
}

BOOST_AUTO_TEST_CASE(AMemberOfNoGroupIsAFault) {
  World w(1);
  w.hear(kCoordinator, CollectiveId{"", {0, 2}, "key"});
  BOOST_TEST(w.said<Fault>().size() == 1u);
  BOOST_TEST(w.given<JoinGroup>().empty());
}

BOOST_AUTO_TEST_CASE(AWorkerThatIsAloneOnItsHostPushesItsOwn) {
  World w(1);
  w.hear(kCoordinator, CollectiveId{"", {1}, ""});
  w.work(1, 0);
  w.reply(0);
  const auto backwards = w.given<Backward>();
  BOOST_TEST_REQUIRE(backwards.size() == 1u);
  BOOST_TEST(backwards[0].buckets.empty());
  BOOST_TEST(backwards[0].stay.empty());
}

BOOST_AUTO_TEST_CASE(TheLowestPushesTheSumAndCoversTheOthers) {
  World w(0);
  w.begin_together();
  w.sum(0, 3, 10);
  const auto pushes = w.sums();
  BOOST_TEST_REQUIRE(pushes.size() == 2u);
  for (const Push& push : pushes) {
    BOOST_TEST(push.samples == 10);
    BOOST_TEST((covered_by(push, 1) == std::vector<WorkerId>{1}));
    BOOST_TEST(push.gradients[0].data<float>()[0] == 3.f);
  }
  BOOST_TEST(w.said<WorkDone>().empty());
  w.acknowledge(pushes);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AnotherMemberPushesNothingAndIsDoneWhenTheNextWeightsCome) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  BOOST_TEST(w.sums().empty());
  BOOST_TEST(w.said<WorkDone>().empty());
  w.give(1);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

// Where each member pulls for itself the server may be faster than the own thread.
BOOST_AUTO_TEST_CASE(ItIsDoneTooWhenTheNextWeightsComeBeforeTheSum) {
  World w(1, false, false);
  w.group();
  w.begin(0);
  w.work(2, 1);
  w.acknowledge(w.said<Push>());
  w.reply(1);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  w.sum(0, 3, 10);
  BOOST_TEST(w.sums().empty());
  BOOST_TEST(w.said<Pull>().empty());
}

// The acknowledgement is lost, the weights that follow the sum are not.
BOOST_AUTO_TEST_CASE(SoIsTheLowest) {
  World w(0);
  w.begin_together();
  w.sum(0, 3, 10);
  w.sums();
  w.reply(1);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  w.take(w.core->tick());
  BOOST_TEST(w.sums().empty());
}

BOOST_AUTO_TEST_CASE(AStepBeforeTheAgreedOneIsPushedAlone) {
  World w(0);
  w.group(1);
  w.work(1, 0);
  w.reply(0);
  BOOST_TEST(w.given<Backward>().at(0).buckets.empty());
  for (const LayerId layer : {2u, 1u, 0u}) w.take(w.core->gradient_ready(0, layer, filled(1), 1, true));
  w.take(w.core->backward_done(0, {1, 2, 4}, 0, 0));
  const auto pushes = w.sums();
  BOOST_TEST(pushes.size() == 2u);
  for (const Push& push : pushes) BOOST_TEST(covered_by(push, 1).empty());
  w.work(2, 1);
  w.reply(1);
  BOOST_TEST(w.given<Backward>().at(0).buckets.size() == 2u);
}

BOOST_AUTO_TEST_CASE(InANewGenerationASumIsNotSaidAgainAndEverybodyPushesItsOwn) {
  World w(0);
  w.begin_together();
  w.sum(0, 3, 10);
  const auto sums = w.sums();
  w.join(2);
  w.take(w.core->tick());
  BOOST_TEST(w.given<LeaveGroup>().size() == 1u);
  BOOST_TEST(w.sums().empty());
  w.alone(0, 1, 4);
  const auto own = w.sums();
  BOOST_TEST_REQUIRE(own.size() == 2u);
  for (size_t i = 0; i < 2; ++i) {
    BOOST_TEST(own[i].sequence == sums[i].sequence);
    BOOST_TEST(own[i].samples == 4);
    BOOST_TEST(covered_by(own[i], 1).empty());
    BOOST_TEST(own[i].gradients[0].data<float>()[0] == 1.f);
  }
  w.take(w.core->tick());
  BOOST_TEST(w.sums().size() == 2u);
  w.acknowledge(own);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

// It was taken while the new generation was on its way: the others push their own by then.
BOOST_AUTO_TEST_CASE(ASumOfAGroupThatHasEndedIsNotPushed) {
  World w(0);
  w.begin_together();
  w.join(2);
  w.sum(0, 3, 10);
  BOOST_TEST(w.sums().empty());
  w.alone(0, 1, 4);
  const auto own = w.sums();
  BOOST_TEST_REQUIRE(own.size() == 2u);
  BOOST_TEST(own[0].samples == 4);
}

BOOST_AUTO_TEST_CASE(SoDoesWhoeverHadOnlyBeenCovered) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  w.join(2);
  w.alone(0, 1, 4);
  const auto own = w.sums();
  BOOST_TEST_REQUIRE(own.size() == 2u);
  BOOST_TEST(own[0].samples == 4);
  BOOST_TEST((w.pulled(1) == std::vector<ParcelId>{1, 0}));
  w.acknowledge(own);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(OfASumThatIsStoredNothingIsPushedAgain) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  w.give(1);
  w.join(2);
  w.alone(0, 1, 4);
  BOOST_TEST(w.sums().empty());
}

// Half of the step's sums were there when the group ended.
BOOST_AUTO_TEST_CASE(ASumAndAnOwnGradientAreNeverPushedTogether) {
  World w(0);
  w.begin_together();
  w.take(w.core->summed_on_host({0, {{1, filled(3)}}, 10, true}));
  w.said<Push>();
  w.join(2);
  w.take(w.core->summed_on_host({0, {{0, filled(1)}}, 4, true, true}));
  const auto first = w.sums();
  BOOST_TEST_REQUIRE(first.size() == 1u);
  BOOST_TEST(first[0].parcel == 0u);
  w.take(w.core->summed_on_host({0, {{1, filled(1)}}, 4, true, true}));
  BOOST_TEST(w.sums().size() == 1u);
}

BOOST_AUTO_TEST_CASE(TheLowestGivesTheNextWeightsInTheOrderOfTheForwardPass) {
  World w(0);
  w.begin_together();
  w.sum(0, 3, 10);
  std::vector<Pull> pulls = w.said<Pull>();
  std::erase_if(pulls, [](const Pull& pull) { return pull.step != 1 || pull.parcel == 2; });
  BOOST_TEST_REQUIRE(pulls.size() == 2u);
  BOOST_TEST_REQUIRE(pulls[0].parcel == 1u);
  w.hear(kServer, PullReply{1, 1, pulls[0].ticket, {filled(5)}});
  BOOST_TEST(w.given<Broadcast>().empty());
  w.hear(kServer, PullReply{0, 1, pulls[1].ticket, {filled(4)}});
  const auto given = w.given<Broadcast>();
  BOOST_TEST_REQUIRE(given.size() == 2u);
  for (const LayerId layer : {0u, 1u}) {
    BOOST_TEST(given[layer].step == 1);
    BOOST_TEST((given[layer].layers == std::vector<LayerId>{layer}));
    BOOST_TEST_REQUIRE(given[layer].parts.size() == 1u);
    BOOST_TEST(given[layer].parts[0].values.data<float>()[0] == 4.f + static_cast<float>(layer));
  }
}

// Whichever of its threads is late, a member makes the same calls as the others in the same order.
BOOST_AUTO_TEST_CASE(NoWeightsAreGivenBeforeAllSumsAreDone) {
  World w(1);
  w.begin_together();
  w.take(w.core->summed_on_host({0, {{1, {}}}, 10, true}));
  BOOST_TEST(w.given<Broadcast>().empty());
  w.take(w.core->summed_on_host({0, {{0, {}}}, 10, true}));
  const auto given = w.given<Broadcast>();
  BOOST_TEST_REQUIRE(given.size() == 2u);
  for (const LayerId layer : {0u, 1u}) {
    BOOST_TEST((given[layer].layers == std::vector<LayerId>{layer}));
    BOOST_TEST(given[layer].parts.empty());
  }
}

BOOST_AUTO_TEST_CASE(AnotherMemberComputesWithWhatItIsGivenAndPullsNothing) {
  World w(1);
  w.begin_together();
  w.work(2, 1);
  w.sum(0, 3, 10);
  BOOST_TEST(w.pulled(1).empty());
  w.tasks.clear();
  w.give(1, {0}, 7);
  BOOST_TEST(w.given<Forward>().size() == 1u);
  w.give(1, {1}, 8);
  BOOST_TEST(w.given<Forward>().size() == 1u);
  BOOST_TEST(w.weight(0) == 7.f);
  BOOST_TEST(w.weight(1) == 8.f);
}

BOOST_AUTO_TEST_CASE(WithoutBroadcastsEachMemberPullsForItself) {
  World w(1, false, false);
  w.begin_together();
  w.work(2, 1);
  w.sum(0, 3, 10);
  BOOST_TEST(w.given<Broadcast>().empty());
  w.tasks.clear();
  w.reply(1);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  BOOST_TEST(w.given<Backward>().size() == 1u);
}

// The server may be faster than the own thread.
BOOST_AUTO_TEST_CASE(ItIsDoneTooWhenItsWeightsComeBeforeTheSum) {
  World w(1, false, false);
  w.group();
  w.begin(0);
  w.work(2, 1);
  w.acknowledge(w.said<Push>());
  w.reply(1);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  w.sum(0, 3, 10);
  BOOST_TEST(w.sums().empty());
  BOOST_TEST(w.said<Pull>().empty());
}

BOOST_AUTO_TEST_CASE(ATestIsPulledAndTheStepBehindItIsGivenAllTheSame) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  w.give(1, {0, 1}, 7);
  w.hear(kCoordinator, Work{2, Work::Kind::evaluate, 1, 1, 0, {0, 0, 4}});
  w.reply(1);
  BOOST_TEST(w.given<Evaluate>().size() == 1u);
  BOOST_TEST(w.weight(0) == 0.f);
  w.take(w.core->evaluated({1, 2, 4}, 0));
  w.hear(kCoordinator, Work{3, Work::Kind::train, 1, 1, 12, {0, 0, 4}});
  BOOST_TEST(w.said<Pull>().empty());
  BOOST_TEST(w.given<Backward>().size() == 2u);
}

BOOST_AUTO_TEST_CASE(WhatAGroupThatEndedGaveIsInHostMemoryBeforeTheBackwardPass) {
  World w(1);
  w.begin_second();
  BOOST_TEST(w.given<Forward>().size() == 1u);
  w.join(2);
  BOOST_TEST(w.pulled(1).empty());
  const auto fetched = w.given<Fetch>();
  BOOST_TEST_REQUIRE(fetched.size() == 1u);
  BOOST_TEST_REQUIRE(fetched[0].layers.size() == 1u);
  BOOST_TEST(fetched[0].layers[0].first == 0u);
  w.alone(0, 1, 4);
  BOOST_TEST((w.pulled(1) == std::vector<ParcelId>{1}));
  w.hear(kCoordinator, CollectiveId{"", {1}, ""});
  w.take(w.core->tick());
  const std::vector<Pull> pulls = w.said<Pull>();
  for (const Pull& pull : pulls)
    if (pull.parcel == 1) w.hear(kServer, PullReply{1, 1, pull.ticket, {filled(8)}});
  const auto forward = w.given<Forward>();
  BOOST_TEST_REQUIRE(forward.size() == 1u);
  BOOST_TEST(forward[0].first == 1u);
  BOOST_TEST(w.given<Backward>().empty());
  w.take(w.core->fetched(fetched[0].layers));
  BOOST_TEST(w.given<Forward>().empty());
  BOOST_TEST(w.given<Backward>().size() == 1u);
  BOOST_TEST(w.weight(0) == 7.f);
}

// The server that follows a lost one has older parameters, and the forward pass has been.
BOOST_AUTO_TEST_CASE(ItIsNotReadFromAServerThatGoesOnFromACheckpoint) {
  World w(1);
  w.begin_second();
  w.join(2, {}, 2);
  const auto fetched = w.given<Fetch>();
  w.alone(0, 1, 4);
  w.hear(kCoordinator, CollectiveId{"", {1}, ""});
  w.take(w.core->tick());
  for (const Pull& pull : w.said<Pull>())
    if (pull.step == 1) w.hear(kServer, PullReply{pull.parcel, 1, pull.ticket, {filled(-3)}});
  BOOST_TEST(w.given<Backward>().empty());
  BOOST_TEST_REQUIRE(fetched.size() == 1u);
  w.take(w.core->fetched(fetched[0].layers));
  BOOST_TEST(w.given<Backward>().size() == 1u);
  BOOST_TEST(w.weight(0) == 7.f);
}

BOOST_AUTO_TEST_CASE(WhatHadComeIsComputedWithWhenWhatHadNotIsThere) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  w.work(2, 1);
  w.reply(1);
  w.tasks.clear();
  w.give(1, {1}, 8);
  w.join(2);
  const auto fetched = w.given<Fetch>();
  BOOST_TEST_REQUIRE(fetched.size() == 1u);
  w.take(w.core->fetched(fetched[0].layers));
  w.join(3);
  BOOST_TEST(w.given<Fetch>().empty());
  w.hear(kCoordinator, CollectiveId{"", {1}, ""});
  w.alone(0, 1, 4);
  w.take(w.core->tick());
  for (const Pull& pull : w.said<Pull>())
    if (pull.step == 1 && pull.parcel == 0) w.hear(kServer, PullReply{0, 1, pull.ticket, {filled(5)}});
  BOOST_TEST(w.given<Backward>().size() == 1u);
  BOOST_TEST(w.weight(0) == 5.f);
  BOOST_TEST(w.weight(1) == 8.f);
}

BOOST_AUTO_TEST_CASE(TheLowestThenHasThemAlready) {
  World w(0);
  w.begin_second();
  BOOST_TEST(w.given<Forward>().size() == 1u);
  w.join(2);
  BOOST_TEST(w.pulled(1).empty());
  w.hear(kCoordinator, CollectiveId{"", {0}, ""});
  BOOST_TEST(w.given<Forward>().size() == 1u);
  BOOST_TEST(w.given<Backward>().size() == 1u);
  BOOST_TEST(w.weight(0) == 0.f);
}

BOOST_AUTO_TEST_CASE(WeightsOfAGroupThatHasEndedAreNotTaken) {
  World w(1);
  w.begin_together();
  w.sum(0, 3, 10);
  w.join(2);
  w.give(1);
  BOOST_TEST(w.said<WorkDone>().empty());
  w.work(2, 1);
  BOOST_TEST((w.pulled(1) == std::vector<ParcelId>{0, 1}));
}

BOOST_AUTO_TEST_CASE(ASumThatIsNotFiniteIsPushedWithoutGradients) {
  World w(0, true);
  w.group();
  w.work(1, 0);
  w.reply(0);
  for (const LayerId layer : {2u, 1u, 0u}) w.take(w.core->gradient_ready(0, layer, filled(1), 1, layer != 1));
  w.take(w.core->backward_done(0, {1, 2, 4}, 0, 0));
  const auto buckets = w.given<Bucket>();
  BOOST_TEST_REQUIRE(buckets.size() == 2u);
  for (const Bucket& bucket : buckets) {
    BOOST_TEST(!bucket.at(0).host->finite);
    BOOST_TEST(bucket.at(0).host->samples == 0);
    BOOST_TEST(std::as_const(bucket.at(0).gradient).data<float>()[0] == 0.f);
  }
  w.sums();
  w.sum(0, 3, 6, false);
  for (const Push& push : w.sums()) {
    BOOST_TEST(!push.finite);
    BOOST_TEST(push.samples == 0);
    BOOST_TEST((covered_by(push, 1) == std::vector<WorkerId>{1}));
  }
}

BOOST_AUTO_TEST_CASE(AWorkerWithoutSamplesTakesPartWithZeros) {
  World w(1);
  w.group();
  w.work(1, 0, 0);
  w.reply(0);
  const auto buckets = w.given<Bucket>();
  BOOST_TEST_REQUIRE(buckets.size() == 2u);
  BOOST_TEST(buckets[0].at(0).host->samples == 0);
  BOOST_TEST(std::as_const(buckets[0].at(0).gradient).data<float>()[0] == 0.f);
}

BOOST_AUTO_TEST_SUITE_END()
