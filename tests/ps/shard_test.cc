#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/held_slice.h>

#include <tests/support/shard_world.h>

using namespace troupe;
using namespace troupe::ps;
using namespace troupe::ps::test;

BOOST_AUTO_TEST_SUITE(shard)

namespace {

const Policy kSync{Mode::sync, 0}, kAsync{Mode::async, 0}, kHome{Mode::all_reduce, 0};
Policy ssp(int64_t s) { return {Mode::ssp, s}; }

Tensor random_tensor(Random& random, int64_t count = ShardWorld::kCount) {
  Tensor t = Tensor::empty(Shape{count});
  for (float& x : t.span<float>()) x = static_cast<float>(random.normal());
  return t;
}

// A store whose appends can be made to fail.
class FailingStore final : public ShardStore {
 public:
  Status open(Generation g, const std::function<void(const Envelope&)>& replay) override {
    return inner_->open(g, replay);
  }
  Status append(Generation g, const Envelope& e) override {
    if (failure) return fail(*failure, "disk is full");
    return inner_->append(g, e);
  }
  Status compact(Generation g, std::shared_ptr<const ShardImage> image) override {
    if (failure) return fail(*failure, "disk is full");
    return inner_->compact(g, std::move(image));
  }
  std::optional<ErrorKind> failure;

 private:
  std::shared_ptr<ShardStore> inner_ = make_memory_store();
};

}  // namespace

// ---- membership ---------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(EverythingIsRefusedBeforeTheFirstMembership) {
  ShardWorld world({kSync});
  world.start();
  for (const Outbox& out : {world.push(0, 0, 0), world.pull(0, 0, 0)}) {
    BOOST_REQUIRE(out.size() == 1u);
    BOOST_TEST((std::get<Refused>(out[0].body).reason == Refused::Reason::stale_generation));
  }
}

BOOST_AUTO_TEST_CASE(AMembershipIsAcknowledgedAgainAndAnOlderOneIgnored) {
  ShardWorld world({kSync});
  world.generation = 5;
  world.start();
  BOOST_TEST(only<MembershipAck>(world.admit()).size() == 1u);
  BOOST_TEST(only<MembershipAck>(world.admit()).size() == 1u);
  world.generation = 4;
  BOOST_TEST(world.admit().empty());
}

BOOST_AUTO_TEST_CASE(AnotherGenerationIsRefusedWithoutEffect) {
  ShardWorld world({kAsync});
  world.run();
  for (Generation other : {0, 2}) {
    Envelope e = world.push_of(0, 0, 0);
    e.generation = other;
    const auto refused = only<Refused>(world.shard->handle(e));
    BOOST_REQUIRE(refused.size() == 1u);
    BOOST_TEST((refused[0].reason == Refused::Reason::stale_generation));
    BOOST_TEST(refused[0].sequence == std::get<Push>(e.body).sequence);
  }
  BOOST_TEST(world.value(0) == 0);
}

BOOST_AUTO_TEST_CASE(AReplacedShardSaysNothing) {
  ShardWorld world({kSync});
  world.run();
  Envelope m = world.membership();
  m.generation = std::get<Membership>(m.body).generation = 2;
  std::get<Membership>(m.body).servers = {2};
  BOOST_TEST(world.shard->handle(m).empty());
  BOOST_TEST(world.shard->fenced());
  BOOST_TEST(world.push(0, 0, 0).empty());
  BOOST_TEST(world.pull(0, 0, 0).empty());
  world.generation = 3;
  BOOST_TEST(world.admit().empty());
}

BOOST_AUTO_TEST_CASE(AShardWhoseStoreWasTakenSaysNothing) {
  ShardWorld world({kSync});
  world.run();
  auto zombie = std::move(world.shard);
  const Envelope late = world.push_of(0, 0, 0);
  world.restart_server();
  BOOST_TEST(zombie->handle(late).empty());
  BOOST_TEST(zombie->fenced());
  BOOST_TEST(!world.shard->fenced());
}

BOOST_AUTO_TEST_CASE(AMembershipFromBeforeThisActorDoesNotFenceIt) {
  ShardWorld world({kSync});
  world.options.self.incarnation = 2;
  world.start();
  Envelope old = world.membership();
  std::get<Membership>(old.body).servers = {1};
  BOOST_TEST(world.shard->handle(old).empty());
  BOOST_TEST(!world.shard->fenced());
  world.generation = 2;
  BOOST_TEST(only<MembershipAck>(world.admit(0)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AServerThatComesBackToAnEmptyStoreIsAFault) {
  ShardWorld world({kSync});
  world.options.self.incarnation = 2;
  world.start();
  const Outbox out = world.admit();
  BOOST_TEST(only<MembershipAck>(out).empty());
  BOOST_TEST_REQUIRE(only<Fault>(out).size() == 1u);
  BOOST_TEST(only<Fault>(out)[0].what.find("its store is empty though the run is under way") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ANewLayoutWithoutAStepToGoOnFromIsAFault) {
  ShardWorld world({kSync, kSync});
  world.run();
  world.set_policies({kSync, kAsync});
  ++world.generation;
  BOOST_TEST(only<Fault>(world.admit()).size() == 1u);
  BOOST_TEST(only<MembershipAck>(world.admit(3)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ARebaseContinuesClocksAndVersionsFromItsStepAndKeepsParameters) {
  ShardWorld world({kSync, ssp(0)});
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0), world.push(w, 1, 0);
  ++world.generation;
  world.set_policies({ssp(0), kSync});
  world.admit(10);
  BOOST_TEST(world.value(0) == -1);
  BOOST_TEST(world.value(1) == -2);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 10)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(0, 1, 10)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 11)).empty());
  BOOST_TEST(only<PullReply>(world.pull(0, 1, 11)).empty());
}

BOOST_AUTO_TEST_CASE(ARebaseInTheMiddleOfAStepIsAFault) {
  ShardWorld world({kSync});
  world.run();
  world.push(0, 0, 0);
  ++world.generation;
  const Outbox out = world.admit(0);
  BOOST_TEST(only<Fault>(out).size() == 1u);
  BOOST_TEST(only<MembershipAck>(out).empty());
}

BOOST_AUTO_TEST_CASE(AStepIsCompleteWhenTheWorkerItWaitedForLeaves) {
  ShardWorld world({kSync}, 3);
  world.run();
  world.push(0, 0, 0, 2);
  world.push(2, 0, 0, 4);
  world.pull(0, 0, 1);
  ++world.generation;
  world.workers[1] = 0;
  const Outbox out = world.admit();
  BOOST_TEST(only<PullReply>(out).size() == 1u);
  BOOST_TEST(world.value(0) == -3);
}

// ---- synchronous --------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ASyncReadWaitsForEveryWorkersPushAndSeesExactlyItsStep) {
  ShardWorld world({kSync});
  world.run();
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 0, 0)).at(0)) == 0);
  BOOST_TEST(only<PushAck>(world.push(0, 0, 0, 4)).size() == 1u);
  BOOST_TEST(world.pull(0, 0, 1).empty());
  const Outbox out = world.push(1, 0, 0, 2);
  BOOST_TEST(only<PushAck>(out).size() == 1u);
  const auto replies = only<PullReply>(out);
  BOOST_REQUIRE(replies.size() == 1u);
  BOOST_TEST(replies[0].step == 1);
  BOOST_TEST(replies[0].lag == 0);
  BOOST_TEST(first_value(replies[0]) == -3);
}

BOOST_AUTO_TEST_CASE(UnequalBatchesGiveTheMeanOverSamples) {
  ShardWorld world({kSync});
  world.run();
  world.push(0, 0, 0, 48, 48);  // 48 samples of gradient 1
  world.push(1, 0, 0, 80, 16);  // 16 samples of gradient 5
  BOOST_TEST(world.value(0) == -2);
}

BOOST_AUTO_TEST_CASE(AWorkerWithoutSamplesCountsForTheStepButNotForTheMean) {
  ShardWorld world({kSync});
  world.run();
  world.push(0, 0, 0, 0, 0);
  world.push(1, 0, 0, 6, 2);
  BOOST_TEST(world.value(0) == -3);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(AStepWithoutAnySamplesAdvancesTheVersionWithoutAnUpdate) {
  ShardWorld world({kSync});
  world.options.optimizer = optimizer_of("sgd", 1, 0.9);
  world.run();
  for (Step t : {0, 1})
    for (WorkerId w : {0, 1}) world.push(w, 0, t, 1, t == 0);
  BOOST_TEST(world.value(0) == -1);
  BOOST_TEST(world.shard->state()[0].updates == 1);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 2)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ArrivalOrderDoesNotMatterBitForBit) {
  std::vector<std::vector<std::vector<float>>> results;
  for (const std::vector<WorkerId>& order : {std::vector<WorkerId>{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}}) {
    ShardWorld world({kSync, kSync}, 4);
    world.options.optimizer = optimizer_of("adam", 0.01);
    world.run();
    for (Step t = 0; t < 5; ++t)
      for (ParcelId parcel : {0, 1})
        for (WorkerId w : order) {
          Envelope e = world.push_of(w, parcel, t, 0, 3 + w);
          Random random(derive_seed(9, "gradient", static_cast<uint64_t>(t) * 8 + parcel * 4 + w));
          std::get<Push>(e.body).gradients = {random_tensor(random)};
          world.shard->handle(e);
        }
    results.push_back(world.dump());
  }
  BOOST_TEST((results[0] == results[1]));
  BOOST_TEST((results[0] == results[2]));
}

// ---- exactly once -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ADoubledPushIsAcknowledgedTwiceAndAppliedOnce) {
  ShardWorld world({kAsync});
  world.run();
  const Envelope e = world.push_of(0, 0, 0);
  for (int i = 0; i < 3; ++i) BOOST_TEST(only<PushAck>(world.shard->handle(e)).size() == 1u);
  BOOST_TEST(world.value(0) == -1);
  BOOST_TEST(world.stats().duplicates_dropped == 2);
}

BOOST_AUTO_TEST_CASE(PushesMayOvertakeEachOther) {
  ShardWorld world({kAsync, kAsync, kAsync});
  world.run();
  const Envelope first = world.push_of(0, 0, 0), second = world.push_of(0, 1, 0), third = world.push_of(0, 2, 0);
  for (const auto& e : {third, first, third, second, first})
    BOOST_TEST(only<PushAck>(world.shard->handle(e)).size() == 1u);
  for (SliceId s : {0, 1, 2}) BOOST_TEST(world.value(s) == -1);
}

BOOST_AUTO_TEST_CASE(ASequenceBelowTheWindowIsRefusedWhereItsStepIsNew) {
  ShardWorld world({kAsync, kAsync});
  world.run();
  const Envelope late = world.push_of(0, 0, 0);
  world.sent[0] = 65;
  BOOST_TEST(only<PushAck>(world.push(0, 1, 0)).size() == 1u);
  const auto refused = only<Refused>(world.shard->handle(late));
  BOOST_REQUIRE(refused.size() == 1u);
  BOOST_TEST((refused[0].reason == Refused::Reason::malformed));
  BOOST_TEST(world.value(0) == 0);
}

BOOST_AUTO_TEST_CASE(TheWindowIsWideEnoughForALayoutOfManyParcels) {
  constexpr ParcelId n = 100;
  ShardWorld world(std::vector<Policy>(n, kAsync));
  world.run();
  std::vector<Envelope> pushes;
  for (Step t : {0, 1})
    for (ParcelId parcel = 0; parcel < n; ++parcel) pushes.push_back(world.push_of(0, parcel, t));
  for (size_t i = 1; i < pushes.size(); ++i) BOOST_TEST(only<PushAck>(world.shard->handle(pushes[i])).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ASequenceUsedForAnotherPushIsRefused) {
  ShardWorld world({kAsync});
  world.run();
  world.push(0, 0, 0);
  world.sent[0] = 0;
  BOOST_TEST(only<Refused>(world.push(0, 0, 1)).size() == 1u);
  BOOST_TEST(world.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(ALatePushOfAReplacedWorkerIsRefused) {
  ShardWorld world({kAsync});
  world.run();
  Envelope late = world.push_of(0, 0, 0);
  world.restart_worker(0);
  late.generation = world.generation;  // even under the new generation
  const auto refused = only<Refused>(world.shard->handle(late));
  BOOST_REQUIRE(refused.size() == 1u);
  BOOST_TEST((refused[0].reason == Refused::Reason::stale_incarnation));
  BOOST_TEST(world.value(0) == 0);
}

BOOST_AUTO_TEST_CASE(ARestartedWorkersStepCountsOnceAndReadsExactlyItsVersion) {
  ShardWorld world({kSync, kSync, kAsync});
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0, 2);  // parcel 0 is complete: version 1
  world.push(0, 1, 0, 2);                            // parcel 1 is not
  world.push(0, 2, 0, 2);
  world.restart_worker(0);
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 0, 0)).at(0)) == 0);
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 1, 0)).at(0)) == 0);
  for (ParcelId parcel : {0, 1, 2}) BOOST_TEST(only<PushAck>(world.push(0, parcel, 0, 2)).size() == 1u);
  world.push(1, 1, 0, 4);
  BOOST_TEST(world.value(0) == -2);
  BOOST_TEST(world.value(1) == -3);
  BOOST_TEST(world.value(2) == -2);
}

BOOST_AUTO_TEST_CASE(ARepeatedStepLeavesNoHoleInTheWindowNotEvenAfterAServerRestart) {
  ShardWorld world({kAsync, kAsync});
  world.run();
  world.push(0, 0, 0), world.push(0, 1, 0);
  world.restart_worker(0);
  world.push(0, 0, 0), world.push(0, 1, 0);
  world.restart_server();
  for (Step t = 1; t < 100; ++t) BOOST_TEST(only<PushAck>(world.push(0, 0, t)).size() == 1u);
  BOOST_TEST(world.value(0) == -100);
}

BOOST_AUTO_TEST_CASE(ANewIncarnationCountsItsSequencesFromOne) {
  ShardWorld world({kAsync});
  world.run();
  for (Step t : {0, 1}) world.push(0, 0, t);
  world.restart_worker(0);
  BOOST_TEST(only<PushAck>(world.push(0, 0, 2)).size() == 1u);
  BOOST_TEST(world.value(0) == -3);
}

BOOST_AUTO_TEST_CASE(WaitingReadsOfAReplacedWorkerAreForgotten) {
  ShardWorld world({kSync});
  world.run();
  world.push(0, 0, 0);
  world.pull(0, 0, 1);
  world.restart_worker(0);
  BOOST_TEST(only<PullReply>(world.push(1, 0, 0)).empty());
}

BOOST_AUTO_TEST_CASE(AReadOfAStepThatCountsAlreadyGetsTheOldestVersionThereIs) {
  ShardWorld world({kSync});
  world.run();
  for (Step t : {0, 1})
    for (WorkerId w : {0, 1}) world.push(w, 0, t);
  world.restart_worker(0);  // its word that step 0 is done was lost: it begins there again
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 0, 0)).at(0)) == -1);
  BOOST_TEST(only<PushAck>(world.push(0, 0, 0)).size() == 1u);
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 0, 1)).at(0)) == -1);
  BOOST_TEST(first_value(only<PullReply>(world.pull(0, 0, 2)).at(0)) == -2);
}

BOOST_AUTO_TEST_CASE(AReplyCarriesTheTicketOfTheNewestRequest) {
  ShardWorld world({kSync}, 1);
  world.run();
  const auto pull = [&](Step step, uint64_t ticket) {
    return world.shard->handle(world.from_worker(0, Pull{0, step, ticket}));
  };
  BOOST_TEST(only<PullReply>(pull(0, 5)).at(0).ticket == 5u);
  pull(1, 7), pull(1, 6), pull(0, 4);
  BOOST_TEST(only<PullReply>(world.push(0, 0, 0)).at(0).ticket == 7u);
}

BOOST_AUTO_TEST_CASE(NothingIsAcknowledgedThatIsNotStored) {
  ShardWorld world({kAsync});
  auto store = std::make_shared<FailingStore>();
  world.store = store;
  world.run();
  store->failure = ErrorKind::exhausted;
  const Envelope e = world.push_of(0, 0, 0);
  const Outbox out = world.shard->handle(e);
  BOOST_TEST(only<PushAck>(out).empty());
  BOOST_TEST(only<Fault>(out).at(0).what.find("disk is full") != std::string::npos);
  BOOST_TEST(world.value(0) == 0);
  store->failure.reset();
  BOOST_TEST(only<PushAck>(world.shard->handle(e)).size() == 1u);
  BOOST_TEST(world.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(AMembershipThatCouldNotBeStoredIsTriedAgain) {
  ShardWorld world({kAsync});
  auto store = std::make_shared<FailingStore>();
  world.store = store;
  store->failure = ErrorKind::exhausted;
  world.start();
  BOOST_TEST(only<Fault>(world.admit()).size() == 1u);
  BOOST_TEST(only<Refused>(world.push(0, 0, 0)).size() == 1u);
  store->failure.reset();
  BOOST_TEST(only<MembershipAck>(world.admit()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ReplayingTheStoreGivesABitEqualShard) {
  ShardWorld world({kSync, ssp(2), kAsync, kHome}, 3);
  world.options.optimizer = optimizer_of("sgd", 0.1, 0.9);
  world.options.scale = ImmediateScale::staleness;
  world.run();
  Random random(6);
  const auto push = [&](WorkerId w, ParcelId parcel, Step t) {
    Envelope e = world.push_of(w, parcel, t, 0, 2 + w);
    std::get<Push>(e.body).gradients = {random_tensor(random)};
    world.shard->handle(e);
  };
  for (Step t = 0; t < 4; ++t)
    for (WorkerId w : {2, 0, 1})
      for (ParcelId parcel : {2, 0, 1}) {
        world.pull(w, parcel, t);
        if (t < 3 || w != 0) push(w, parcel, t);  // the last step stays incomplete
      }
  world.shard->handle(world.from_worker(0, Install{1, {{3, random_tensor(random), {random_tensor(random)}, 7}}}));
  const auto before = world.dump();
  world.restart_server();
  BOOST_TEST((world.dump() == before));
  push(0, 0, 3);  // and it goes on: the step needed this push alone
  BOOST_TEST(only<PullReply>(world.pull(1, 0, 4)).size() == 1u);
  BOOST_TEST((world.dump() != before));
}

BOOST_AUTO_TEST_CASE(TwoShardsFedTheSameEnvelopesAreEqual) {
  ShardWorld a({kSync, ssp(1)}), b({kSync, ssp(1)});
  a.run(), b.run();
  Random random(8);
  for (int i = 0; i < 500; ++i) {
    const auto w = static_cast<WorkerId>(random.below(2));
    const auto parcel = static_cast<ParcelId>(random.below(2));
    const auto step = static_cast<Step>(random.below(8));
    const bool push = random.chance(0.6);
    for (ShardWorld* world : {&a, &b}) push ? world->push(w, parcel, step, 3) : world->pull(w, parcel, step);
  }
  BOOST_TEST((a.dump() == b.dump()));
}

// ---- bounded staleness and asynchrony -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ABoundedReadIsAnsweredExactlyWhenTheSlowestWorkerIsNearEnough) {
  for (int64_t bound : {0, 1, 3}) {
    ShardWorld world({ssp(bound)});
    world.run();
    Step t = 0;
    for (; t <= bound; ++t) {
      const auto replies = only<PullReply>(world.pull(0, 0, t));
      BOOST_REQUIRE_MESSAGE(replies.size() == 1u, "bound " << bound << " step " << t);
      BOOST_TEST(replies[0].lag == t);
      world.push(0, 0, t);
    }
    BOOST_TEST(world.pull(0, 0, t).empty());
    const auto replies = only<PullReply>(world.push(1, 0, 0));
    BOOST_REQUIRE(replies.size() == 1u);
    BOOST_TEST(replies[0].lag == bound);
  }
}

BOOST_AUTO_TEST_CASE(AnAsynchronousReadNeverWaits) {
  ShardWorld world({kAsync});
  world.run();
  for (Step t = 0; t < 50; ++t) {
    const auto replies = only<PullReply>(world.pull(0, 0, t));
    BOOST_REQUIRE(replies.size() == 1u);
    BOOST_TEST(replies[0].lag == t);
    BOOST_TEST(first_value(replies[0]) == static_cast<float>(-t));
    world.push(0, 0, t);
  }
}

BOOST_AUTO_TEST_CASE(AnImmediatePushIsWeighedAsConfigured) {
  struct Case {
    ImmediateScale scale;
    float after_two;  // worker 1 reads, worker 0 pushes twice (mean 2), then worker 1 pushes (mean 2)
  };
  for (const Case& c : {Case{ImmediateScale::none, -6}, Case{ImmediateScale::samples, -1.5},
                        Case{ImmediateScale::staleness, -2 - 2 - 2.f / 3}}) {
    ShardWorld world({kAsync});
    world.options.scale = c.scale;
    world.options.global_batch = 16;
    world.run();
    world.pull(1, 0, 0);
    for (Step t : {0, 1}) world.pull(0, 0, t), world.push(0, 0, t, 8, 4);
    world.push(1, 0, 0, 8, 4);
    BOOST_TEST(world.value(0) == c.after_two);
  }
}

BOOST_AUTO_TEST_CASE(TheReadsThatWeighPushesComeBackFromTheStore) {
  ShardWorld world({kAsync});
  world.options.scale = ImmediateScale::staleness;
  world.run();
  world.pull(1, 0, 0);
  for (Step t : {0, 1}) world.pull(0, 0, t), world.push(0, 0, t);
  world.push(1, 0, 0);  // two updates late: a third of its weight
  world.pull(1, 0, 1);
  world.pull(0, 0, 2), world.push(0, 0, 2);
  world.restart_server();
  BOOST_TEST(world.value(0) == -3 - 1.f / 3);
  world.push(1, 0, 1);  // one update late: half
  BOOST_TEST(world.value(0) == -3.5f - 1.f / 3);
}

BOOST_AUTO_TEST_CASE(AnImmediatePushIsClippedByItsWorkersScale) {
  ShardWorld world({kAsync});
  world.run();
  Envelope e = world.push_of(0, 0, 0, 8, 2);
  std::get<Push>(e.body).scale = 0.25;
  world.shard->handle(e);
  BOOST_TEST(world.value(0) == -1);
}

BOOST_AUTO_TEST_CASE(ANonFiniteImmediatePushCountsButChangesNothing) {
  ShardWorld world({kAsync});
  world.run();
  Envelope e = world.push_of(0, 0, 0, NAN);
  std::get<Push>(e.body).finite = false;
  BOOST_TEST(only<PushAck>(world.shard->handle(e)).size() == 1u);
  BOOST_TEST(world.value(0) == 0);
  BOOST_TEST(world.stats().skipped_steps == 1);
  BOOST_TEST(only<PushAck>(world.push(0, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(PoliciesLiveSideBySide) {
  ShardWorld world({kSync, ssp(1), kAsync, kHome});
  world.run();
  for (ParcelId parcel : {0, 1, 2}) world.push(0, parcel, 0, 2);
  BOOST_TEST(world.value(0) == 0);
  BOOST_TEST(world.value(1) == -2);
  BOOST_TEST(world.value(2) == -2);
  BOOST_TEST(world.pull(0, 0, 1).empty());
  BOOST_TEST(only<PullReply>(world.pull(0, 1, 1)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(0, 2, 1)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(0, 3, 1)).size() == 1u);
}

// ---- verdicts -----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AStepWaitsForItsVerdictOnceAllSyncParcelsAreComplete) {
  ShardWorld world({kSync, kSync, kAsync});
  world.options.needs_verdict = true;
  world.run();
  for (WorkerId w : {0, 1}) BOOST_TEST(only<Partial>(world.push(w, 0, 0, 4)).empty());
  world.push(0, 1, 0, 4);
  BOOST_TEST(world.shard->tick().empty());
  const auto partials = only<Partial>(world.push(1, 1, 0, 4));
  BOOST_REQUIRE(partials.size() == 1u);
  BOOST_TEST(partials[0].finite);
  BOOST_TEST(partials[0].sum_of_squares == 2 * ShardWorld::kCount * 16.0);
  BOOST_TEST(only<Partial>(world.shard->tick()).size() == 1u);
  BOOST_TEST(world.value(0) == 0);
  world.pull(0, 0, 1);
  BOOST_TEST(only<PullReply>(world.verdict(0, false, 0.5)).size() == 1u);
  BOOST_TEST(world.value(0) == -2);
  BOOST_TEST(world.value(1) == -2);
  BOOST_TEST(world.shard->tick().empty());
}

BOOST_AUTO_TEST_CASE(ASnapshotIsGivenOnceTheVerdictOnTheLastStepHasCome) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0, 4);
  BOOST_TEST(world.shard->handle(world.from_coordinator(Snapshot{7})).empty());
  const auto replies = only<SnapshotReply>(world.verdict(0));
  BOOST_REQUIRE(replies.size() == 1u);
  BOOST_TEST(replies[0].round == 7u);
  BOOST_TEST(replies[0].slices.at(0).values.data<float>()[0] == -4);
}

BOOST_AUTO_TEST_CASE(ASkippedStepAdvancesTheVersionWithoutAnUpdate) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0, 4);
  world.verdict(0, true);
  BOOST_TEST(world.value(0) == 0);
  BOOST_TEST(world.stats().skipped_steps == 1);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(VerdictsThatAreEarlyRepeatedOrSenselessChangeNothing) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  world.verdict(0);
  for (WorkerId w : {0, 1}) world.push(w, 0, 0, 4);
  world.verdict(1);
  world.verdict(0, false, NAN);
  BOOST_TEST(world.value(0) == 0);
  for (int i = 0; i < 3; ++i) world.verdict(0);
  BOOST_TEST(world.value(0) == -4);
}

BOOST_AUTO_TEST_CASE(APartialIsSaidAgainUnderANewGenerationAndByANewServer) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  for (WorkerId w : {0, 1}) world.push(w, 0, 0, 4);
  BOOST_TEST(only<Partial>(world.restart_worker(1)).size() == 1u);
  world.restart_server();
  BOOST_TEST(only<Partial>(world.shard->tick()).size() == 1u);
  world.verdict(0);
  BOOST_TEST(world.value(0) == -4);
}

BOOST_AUTO_TEST_CASE(VerdictsComeBackFromTheStore) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  for (Step t : {0, 1, 2}) {
    for (WorkerId w : {0, 1}) world.push(w, 0, t, 4);
    world.verdict(t, t == 1, 0.5);
  }
  world.restart_server();
  BOOST_TEST(world.value(0) == -4);
  BOOST_TEST(world.shard->tick().empty());
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 3)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ANonFiniteGradientNamesLayerAndWorker) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    ShardWorld world({kSync, kSync}, 3);
    world.options.needs_verdict = true;
    world.run();
    Outbox out;
    for (WorkerId w : {0, 1, 2})
      for (ParcelId parcel : {0, 1}) {
        Envelope e = world.push_of(w, parcel, 0);
        if (w == 1 && parcel == 1) std::get<Push>(e.body).gradients[0].data<float>()[7] = bad;
        out = world.shard->handle(e);
      }
    const Partial partial = only<Partial>(out).at(0);
    BOOST_TEST(!partial.finite);
    BOOST_TEST(partial.culprit == "layer fc2, worker 1");
  }
}

BOOST_AUTO_TEST_CASE(AFlaggedPushMakesTheStepNonFinite) {
  ShardWorld world({kSync});
  world.options.needs_verdict = true;
  world.run();
  world.push(0, 0, 0);
  Envelope e = world.push_of(1, 0, 0);
  std::get<Push>(e.body).finite = false;
  const Partial partial = only<Partial>(world.shard->handle(e)).at(0);
  BOOST_TEST(!partial.finite);
  BOOST_TEST(partial.culprit.find("worker 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(TheNormOverAllShardsIsTheNormOnOneDevice) {
  std::vector<LayerSpec> layers = {layer_of("fc1", 5000), layer_of("bn", 64, ParamKind::statistic),
                                   layer_of("fc2", 300)};
  double expected = 0;
  std::vector<std::vector<float>> first, second;
  Random random(12);
  for (const auto& layer : layers) {
    std::vector<float> a, b;
    for (int64_t i = 0; i < layer.count; ++i) {
      a.push_back(static_cast<float>(random.normal()));
      b.push_back(static_cast<float>(random.normal()));
      const double mean = (static_cast<double>(a.back()) + b.back()) / 8;
      if (layer.params[0].kind != ParamKind::statistic) expected += mean * mean;
    }
    first.push_back(a), second.push_back(b);
  }
  for (uint32_t servers : {1u, 2u, 3u, 5u}) {
    const auto layout =
        std::make_shared<Layout>(make_layout(layers, std::vector<Policy>(3, kSync), {servers, 2048, 256, false}));
    double total = 0;
    for (ServerId s = 0; s < servers; ++s) {
      ShardOptions options{{Role::server, s, 1}};
      options.optimizer = optimizer_of("sgd");
      options.needs_verdict = true;
      Shard shard(options, make_null_store(), zeros());
      shard.handle(
          {kCoordinator, options.self, 1, Membership{1, {1, 1}, std::vector<Incarnation>(servers, 1), layout}});
      for (WorkerId w : {0, 1}) {
        Sequence sequence = 0;
        for (const Parcel& parcel : layout->parcels) {
          if (parcel.server != s) continue;
          Push push{++sequence, parcel.id, 0, 0, w == 0 ? 5 : 3};
          for (SliceId id : parcel.slices) {
            const Slice& slice = layout->slices[id];
            const auto& all = w == 0 ? first[slice.layer] : second[slice.layer];
            push.gradients.push_back(
                Tensor::from(std::span<const float>(all).subspan(static_cast<size_t>(slice.begin),
                                                                 static_cast<size_t>(slice.count())),
                             Shape{slice.count()}));
          }
          for (const auto& p : only<Partial>(shard.handle({{Role::worker, w, 1}, options.self, 1, push})))
            total += p.sum_of_squares;
        }
      }
    }
    BOOST_TEST(std::abs(total - expected) < 1e-6 * expected,
               servers << " servers: " << total << ", expected " << expected);
  }
}

// ---- what is shared, and homes ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(WorkersShareOneCopyOfWhatTheyPull) {
  ShardWorld world({kSync});
  world.run();
  const auto a = only<PullReply>(world.pull(0, 0, 0)).at(0), b = only<PullReply>(world.pull(1, 0, 0)).at(0);
  BOOST_TEST(a.values[0].raw() == b.values[0].raw());
}

BOOST_AUTO_TEST_CASE(WhatWasPulledNeverChanges) {
  for (const Policy& policy : {kSync, kAsync}) {
    ShardWorld world({policy});
    world.run();
    std::vector<PullReply> pulled;
    for (Step t = 0; t < 4; ++t) {
      pulled.push_back(only<PullReply>(world.pull(0, 0, t)).at(0));
      for (WorkerId w : {0, 1}) world.push(w, 0, t);
    }
    for (size_t t = 0; t < 4; ++t)
      BOOST_TEST(first_value(pulled[t]) == -static_cast<float>(t) * (policy.aggregates() ? 1 : 2));
  }
}

BOOST_AUTO_TEST_CASE(AnImmediatePushWritesInPlaceWhatNobodyHolds) {
  ShardWorld world({kAsync});
  world.run();
  const std::byte* before = world.shard->state()[0].values.raw();
  world.push(0, 0, 0);
  BOOST_TEST(world.shard->state()[0].values.raw() == before);
  const auto held = world.pull(0, 0, 1);
  world.push(0, 0, 1);
  BOOST_TEST(world.shard->state()[0].values.raw() != before);
}

BOOST_AUTO_TEST_CASE(WhatIsLentIsNotWrittenByItsOnlyHolder) {
  const ShardWorld world({kAsync});
  std::vector<float> lent(ShardWorld::kCount, 5);
  const auto lend = [&] {
    auto* const data = reinterpret_cast<std::byte*>(lent.data());
    return Tensor(std::make_shared<Buffer>(data, lent.size() * 4, Device{}, [](Buffer&) {}, false), 0,
                  {ShardWorld::kCount}, DType::f32);
  };
  const auto momentum = optimizer_of("sgd", 1, 0.5);
  HeldSlice slice(*world.layout, world.layout->slices[0], {0, lend(), {lend()}, 9}, *momentum);
  const std::vector<Tensor> gradient = {ShardWorld::filled(ShardWorld::kCount, 1)};
  slice.apply(*momentum, {}, gradient);
  BOOST_TEST((lent == std::vector<float>(ShardWorld::kCount, 5)));
  BOOST_TEST(slice.values().span<float>()[0] == 5 - (0.5F * 5 + 1));
  BOOST_TEST(slice.values().buffer()->writable());
}

BOOST_AUTO_TEST_CASE(ASyncParcelAlternatesBetweenTwoBuffers) {
  ShardWorld world({kSync}, 1);
  world.run();
  std::vector<const std::byte*> where;
  for (Step t = 0; t < 6; ++t) {
    world.push(0, 0, t);
    where.push_back(world.shard->state()[0].values.raw());
  }
  BOOST_TEST(where[3] == where[1]);
  BOOST_TEST(where[4] == where[2]);
  BOOST_TEST(where[3] != where[4]);
}

BOOST_AUTO_TEST_CASE(PushesAfterASnapshotDoNotChangeIt) {
  ShardWorld world({kSync, kAsync});
  world.options.optimizer = optimizer_of("sgd", 1, 0.5);
  world.run();
  const auto push_all = [&](Step t) {
    for (ParcelId parcel : {0, 1})
      for (WorkerId w : {0, 1}) world.push(w, parcel, t);
  };
  push_all(0);
  const auto reply = only<SnapshotReply>(world.shard->handle(world.from_coordinator(Snapshot{3}))).at(0);
  const auto before = world.dump();
  push_all(1), push_all(2);
  BOOST_TEST(reply.round == 3u);
  BOOST_REQUIRE(reply.slices.size() == 2u);
  for (size_t s = 0; s < 2; ++s) {
    BOOST_TEST(reply.slices[s].values.data<float>()[0] == before[3 * s][0]);
    BOOST_TEST(reply.slices[s].state.at(0).data<float>()[0] == before[3 * s + 1][0]);
    BOOST_TEST(static_cast<float>(reply.slices[s].updates) == before[3 * s + 2][0]);
  }
  BOOST_TEST((world.dump() != before));
}

BOOST_AUTO_TEST_CASE(AnInstalledHomeIsReadBackWithItsState) {
  ShardWorld world({kHome});
  world.options.optimizer = optimizer_of("adam");
  world.run();
  const auto tensor = [](float x) { return ShardWorld::filled(ShardWorld::kCount, x); };
  const Envelope install = world.from_worker(0, Install{2, {{0, tensor(5), {tensor(6), tensor(7)}, 9}}});
  for (int i = 0; i < 2; ++i) BOOST_TEST(only<InstallAck>(world.shard->handle(install)).at(0).round == 2u);
  const auto reply = only<PullReply>(world.pull(1, 0, 40)).at(0);
  BOOST_TEST(first_value(reply) == 5);
  BOOST_REQUIRE(reply.state.size() == 1u);
  BOOST_TEST(reply.state[0].state.at(1).data<float>()[3] == 7);
  BOOST_TEST(reply.state[0].updates == 9);
}

BOOST_AUTO_TEST_CASE(ALateCopyOfAnOlderInstallDoesNotOverwriteANewerOne) {
  ShardWorld world({kHome});
  world.run();
  const auto install = [&](uint64_t round, float x) {
    return world.shard->handle(
        world.from_worker(0, Install{round, {{0, ShardWorld::filled(ShardWorld::kCount, x), {}, 0}}}));
  };
  install(1, 1), install(2, 2);
  BOOST_TEST(only<InstallAck>(install(1, 1)).size() == 1u);
  BOOST_TEST(world.value(0) == 2);
}

BOOST_AUTO_TEST_CASE(CountersTellBytesLagAndDelayByLayer) {
  ShardWorld world({kSync, kAsync});
  world.run();
  world.pull(1, 1, 0);
  for (Step t : {0, 1}) world.pull(0, 1, t), world.push(0, 1, t);
  world.push(1, 1, 0);
  world.push(0, 0, 0, 0, 0);
  const StatsReply stats = world.stats();
  BOOST_REQUIRE(stats.layers.size() == 2u);
  constexpr int64_t bytes = ShardWorld::kCount * 4;
  BOOST_TEST(stats.layers[0].pushes == 1);
  BOOST_TEST(stats.layers[0].pushed_bytes == 0);
  BOOST_TEST(stats.layers[1].pushes == 3);
  BOOST_TEST(stats.layers[1].updates == 3);
  BOOST_TEST(stats.layers[1].pushed_bytes == 3 * bytes);
  BOOST_TEST(stats.layers[1].pulled_bytes == 3 * bytes);
  BOOST_TEST(stats.layers[1].lag_histogram[0] == 2);
  BOOST_TEST(stats.layers[1].lag_histogram[1] == 1);
  BOOST_TEST(stats.layers[1].delay_histogram[0] == 2);
  BOOST_TEST(stats.layers[1].delay_histogram[2] == 1);
}

// ---- recorded orders ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ARecordedOrderReproducesAnAsynchronousRunBitForBit) {
  const auto envelope = [](ShardWorld& world, WorkerId w, Step t) {
    Envelope e = world.push_of(w, 0, t);
    Random random(derive_seed(2, "gradient", static_cast<uint64_t>(t) * 2 + w));
    std::get<Push>(e.body).gradients = {random_tensor(random)};
    return e;
  };
  ShardWorld recorded({kAsync});
  recorded.options.optimizer = optimizer_of("sgd", 0.1, 0.9);
  recorded.options.scale = ImmediateScale::staleness;
  recorded.run();
  std::vector<Shard::Event> order;
  recorded.shard->on_event([&](const Shard::Event& e) { order.push_back(e); });
  for (Step t = 0; t < 5; ++t) {
    for (WorkerId w : {1, 0}) recorded.pull(w, 0, t);
    for (WorkerId w : {0, 1}) recorded.shard->handle(envelope(recorded, w, t));
  }
  BOOST_TEST(order.size() == 20u);

  ShardWorld again({kAsync});
  again.options = recorded.options;
  again.run();
  again.shard->replay(order);
  int replies = 0;
  std::vector<Step> at(2, 0);
  const auto turn = [&](WorkerId w) {  // the other worker comes first now
    for (const auto& e : {again.from_worker(w, Pull{0, at[w]}), envelope(again, w, at[w])})
      replies += static_cast<int>(only<PullReply>(again.shard->handle(e)).size());
    ++at[w];
  };
  for (Step t = 0; t < 5; ++t) turn(1);
  BOOST_TEST(replies == 1);
  for (Step t = 0; t < 5; ++t) turn(0);
  BOOST_TEST(replies == 10);
  BOOST_TEST((again.dump() == recorded.dump()));
}

BOOST_AUTO_TEST_CASE(ARepeatedReadIsRecordedOnceButThatOfARestartedWorkerAgain) {
  ShardWorld world({kAsync});
  world.run();
  int reads = 0;
  world.shard->on_event([&](const Shard::Event&) { ++reads; });
  world.pull(0, 0, 0), world.pull(0, 0, 0);
  BOOST_TEST(reads == 1);
  world.restart_worker(0);
  world.pull(0, 0, 0);
  BOOST_TEST(reads == 2);
}

BOOST_AUTO_TEST_CASE(WhenARecordedOrderEndsNothingWaits) {
  ShardWorld world({kAsync});
  world.run();
  world.shard->replay({{Shard::Event::Kind::push, 0, 0, 0}});
  BOOST_TEST(world.push(1, 0, 0).empty());
  const Outbox out = world.push(0, 0, 0);
  BOOST_TEST(only<PushAck>(out).size() == 2u);
  BOOST_TEST(only<PushAck>(world.push(1, 0, 1)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(ARepeatedReadDoesNotWaitForItsTurnAgain) {
  ShardWorld world({kAsync});
  world.run();
  world.shard->replay({{Shard::Event::Kind::pull, 0, 0, 0}, {Shard::Event::Kind::push, 1, 0, 0}});
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 0)).size() == 1u);
  BOOST_TEST(only<PullReply>(world.pull(0, 0, 0)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(SynchronousLayersDoNotCareForARecordedOrder) {
  ShardWorld world({kSync, kAsync});
  world.run();
  world.shard->replay({{Shard::Event::Kind::push, 1, 1, 0}, {Shard::Event::Kind::push, 0, 1, 0}});
  BOOST_TEST(only<PushAck>(world.push(0, 0, 0)).size() == 1u);
  BOOST_TEST(only<PushAck>(world.push(0, 1, 0)).empty());
  BOOST_TEST(only<PushAck>(world.push(1, 1, 0)).size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
