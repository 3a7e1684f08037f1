#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include <troupe/ps/control/worker_core.h>

#include <tests/support/said.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(worker_core_step)

namespace {

const Policy kSync{Mode::sync}, kAsync{Mode::async}, kReduced{Mode::all_reduce};
constexpr Endpoint kCoordinator{Role::coordinator, 0, 1};
constexpr int64_t kCount = 32;

Tensor filled(float value, int64_t count = kCount) {
  Tensor t = Tensor::empty({count});
  for (float& x : t.span<float>()) x = value;
  return t;
}

/// Worker 0 of two, and what it says and has done. Every layer is one slice and one parcel, alternately on two
/// servers, unless `sizes` says otherwise.
class World {
 public:
  explicit World(std::vector<Policy> policies, WorkerOptions given = {},
                 LayoutOptions sizes = {.servers = 2, .fuse_bytes = 4 * kCount}) {
    given.self = {Role::worker, 0, 1};
    for (size_t i = 0; i < policies.size(); ++i)
      layers.push_back({cat("fc", i + 1), kCount, {{cat("fc", i + 1, ".weight"), {kCount}, 0}}});
    layout = std::make_shared<Layout>(make_layout(layers, std::move(policies), sizes));
    core = std::make_unique<WorkerCore>(given, layers);
    join();
  }

  void join(std::optional<Step> rebase = {}) {
    hear(kCoordinator, Membership{generation, workers, servers, layout, rebase});
  }
  void hear(const Endpoint& from, Message body) { hear_under(generation, from, std::move(body)); }
  void hear_under(Generation g, const Endpoint& from, Message body) {
    take(core->handle({from, {Role::worker, 0, 1}, g, std::move(body)}));
  }
  void take(WorkerCore::Effects effects) {
    for (Envelope& e : effects.send) sent.push_back(std::move(e));
    for (Task& t : effects.tasks) tasks.push_back(std::move(t));
    finished = finished || effects.finished;
  }

  Endpoint server_of(ParcelId parcel) const {
    const ServerId server = layout->parcels[parcel].server;
    return {Role::server, server, servers[server]};
  }

  void work(uint64_t number, Step step, int64_t count = 4, Work::Kind kind = Work::Kind::train) {
    hear(kCoordinator, Work{number, kind, step, step, 8, {0, 0, count}});
  }
  /// Answers the pull of this parcel that was said last.
  void reply(ParcelId parcel, float value = 0) {
    for (auto e = sent.rbegin(); e != sent.rend(); ++e)
      if (const auto* pull = std::get_if<Pull>(&e->body); pull && pull->parcel == parcel) {
        PullReply reply{parcel, pull->step, pull->ticket};
        for (const SliceId s : layout->parcels[parcel].slices) {
          reply.values.push_back(filled(value, layout->slices[s].count()));
          reply.state.push_back({s, reply.values.back(), {}, 0});
        }
        hear(server_of(parcel), reply);
        return;
      }
    BOOST_FAIL("parcel " << parcel << " was not asked for");
  }
  void reply_all() {
    for (const Parcel& parcel : layout->parcels) reply(parcel.id);
  }
  void gradient(Step step, LayerId layer, float value = 1, bool finite = true) {
    take(core->gradient_ready(step, layer, filled(value), kCount * value * value, finite));
  }
  void backward(Step step) { take(core->backward_done(step, {1, 2, 4}, 0.5, 0.25)); }
  /// A step's gradients, last layer first.
  void compute(Step step, float value = 1) {
    for (size_t layer = layers.size(); layer-- > 0;) gradient(step, static_cast<LayerId>(layer), value);
    backward(step);
  }
  void acknowledge(const Push& push) { hear(server_of(push.parcel), PushAck{push.sequence, push.parcel, push.step}); }

  /// What was said of one kind, and is forgotten.
  template <class M>
  std::vector<M> said() {
    return test::take_said<M>(sent);
  }
  /// " {2 1} {0 and apply}".
  static std::string buckets_text(const std::vector<Bucket>& buckets) {
    std::string text;
    for (const Bucket& bucket : buckets) {
      text += " {";
      for (const Reduce& r : bucket) text += cat(&r == &bucket[0] ? "" : " ", r.layer, r.apply ? " and apply" : "");
      text += '}';
    }
    return text;
  }
  /// The tasks given out since the last call: "forward 0-2, backward {1 and apply}".
  std::string given() {
    std::string text;
    for (const Task& task : tasks) {
      if (!text.empty()) text += ", ";
      if (const auto* f = std::get_if<Forward>(&task)) text += cat("forward ", f->first, '-', f->last);
      if (const auto* b = std::get_if<Backward>(&task)) text += "backward" + buckets_text(b->buckets);
      if (std::holds_alternative<Evaluate>(task)) text += "evaluate";
      if (const auto* b = std::get_if<Bucket>(&task)) text += "reduce" + buckets_text({*b});
      if (const auto* p = std::get_if<Prepare>(&task)) text += cat("prepare ", p->work.step);
      if (const auto* a = std::get_if<ApplyLocal>(&task)) text += cat("apply ", a->layer);
    }
    tasks.clear();
    return text;
  }

  std::vector<LayerSpec> layers;
  std::shared_ptr<const Layout> layout;
  std::unique_ptr<WorkerCore> core;
  Generation generation = 1;
  std::vector<Incarnation> workers{1, 1}, servers{1, 1};
  std::vector<Envelope> sent;
  std::vector<Task> tasks;
  bool finished = false;
};

}  // namespace

// ---- a step -----------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ForwardRangesFollowTheWeightsThatCame) {
  World w({kSync, kAsync, kSync});
  w.work(1, 0);
  BOOST_TEST(w.given() == "");
  w.reply(0);
  BOOST_TEST(w.given() == "forward 0-1");
  w.reply(2);
  BOOST_TEST(w.given() == "");
  w.reply(1);
  BOOST_TEST(w.given() == "forward 1-3, backward");
}

BOOST_AUTO_TEST_CASE(TheNextStepIsPreparedBehindTheOneThatRuns) {
  World w({kSync});
  w.work(1, 0);
  w.work(2, 1);  // comes before the weights of its predecessor
  BOOST_TEST(w.given() == "");
  w.reply(0);
  BOOST_TEST(w.given() == "forward 0-1, backward, prepare 1");
  w.compute(0);
  w.acknowledge(w.said<Push>().at(0));
  w.reply(0);
  BOOST_TEST(w.given() == "forward 0-1, backward");
  w.work(3, 2);
  BOOST_TEST(w.given() == "prepare 2");
}

BOOST_AUTO_TEST_CASE(AStepWithoutSamplesIsNotPrepared) {
  World w({kSync});
  w.work(1, 0);
  w.reply(0);
  BOOST_TEST(w.given() == "forward 0-1, backward");
  w.work(2, 1, 0);
  BOOST_TEST(w.given() == "");
}

BOOST_AUTO_TEST_CASE(WeightsOfACutLayerArePutTogetherInTheirOrder) {
  World w({kSync}, {}, {.servers = 2, .slice_bytes = 64, .fuse_bytes = 0});
  BOOST_TEST_REQUIRE(w.layout->parcels.size() == 2u);
  w.work(1, 0);
  w.reply(1, 2);
  w.reply(0, 1);
  const Tensor& weights = w.core->weights(Work{1})[0];
  BOOST_TEST(weights.data<float>()[0] == 1);
  BOOST_TEST(weights.data<float>()[15] == 1);
  BOOST_TEST(weights.data<float>()[16] == 2);
  BOOST_TEST(weights.data<float>()[31] == 2);
}

BOOST_AUTO_TEST_CASE(APulledLayerIsNotCopied) {
  World w({kSync});
  w.work(1, 0);
  const Pull pull = w.said<Pull>().at(0);
  const Tensor published = filled(3);
  w.hear(w.server_of(0), PullReply{0, 0, pull.ticket, {published}});
  BOOST_TEST(w.core->weights(Work{1})[0].data<float>() == published.data<float>());
}

BOOST_AUTO_TEST_CASE(ThePullOfTheNextStepLeavesRightBehindThePush) {
  World w({kSync, kSync});
  w.work(1, 0);
  w.reply_all();
  w.sent.clear();
  w.gradient(0, 1);
  BOOST_TEST_REQUIRE(w.sent.size() == 2u);
  const auto& push = std::get<Push>(w.sent[0].body);
  const auto& pull = std::get<Pull>(w.sent[1].body);
  BOOST_TEST(push.parcel == 1u);
  BOOST_TEST(push.step == 0);
  BOOST_TEST(push.samples == 4);
  BOOST_TEST(pull.parcel == 1u);
  BOOST_TEST(pull.step == 1);
  BOOST_TEST((w.sent[0].to == w.server_of(1) && w.sent[1].to == w.server_of(1)));
}

BOOST_AUTO_TEST_CASE(AFusedParcelIsPushedWhenItsLastGradientIsThere) {
  World w({kSync, kSync}, {}, {.servers = 1, .fuse_bytes = 1 << 20});
  BOOST_TEST_REQUIRE(w.layout->parcels.size() == 1u);
  w.work(1, 0);
  w.reply(0);
  w.gradient(0, 1, 5);
  BOOST_TEST(w.said<Push>().empty());
  w.gradient(0, 0, 4);
  const auto pushes = w.said<Push>();
  BOOST_TEST_REQUIRE(pushes.size() == 1u);
  BOOST_TEST(pushes[0].gradients.at(0).data<float>()[0] == 4);
  BOOST_TEST(pushes[0].gradients.at(1).data<float>()[0] == 5);
}

BOOST_AUTO_TEST_CASE(WorkIsDoneWhenBackwardIsAndEveryPushIsAcknowledged) {
  for (const bool backward_last : {false, true}) {
    World w({kSync, kSync});
    w.work(1, 0);
    w.reply_all();
    w.gradient(0, 1);
    w.gradient(0, 0);
    const auto pushes = w.said<Push>();
    if (!backward_last) w.backward(0);
    w.acknowledge(pushes[0]);
    BOOST_TEST(w.said<WorkDone>().empty());
    w.acknowledge(pushes[1]);
    if (backward_last) w.backward(0);
    const auto done = w.said<WorkDone>();
    BOOST_TEST_REQUIRE(done.size() == 1u);
    BOOST_TEST(done[0].number == 1u);
    BOOST_TEST(done[0].stats.samples == 4);
    BOOST_TEST(done[0].pushed_bytes == 2 * kCount * 4);
    BOOST_TEST(done[0].pulled_bytes == 2 * kCount * 4);
  }
}

BOOST_AUTO_TEST_CASE(TheNextWorkIsAskedForWhileThisOneRuns) {
  World w({kSync});
  BOOST_TEST(w.said<WorkRequest>().at(0).number == 1u);
  w.work(1, 0);
  BOOST_TEST(w.said<WorkRequest>().at(0).number == 2u);
  w.work(2, 1);  // held until the first is through
  BOOST_TEST(w.said<WorkRequest>().empty());
  w.reply_all();
  BOOST_TEST(w.given() == "forward 0-1, backward, prepare 1");
  w.compute(0);
  BOOST_TEST(w.said<WorkRequest>().at(0).number == 3u);
  w.reply_all();  // the pull that left behind the push, before the push is acknowledged
  BOOST_TEST(w.given() == "forward 0-1, backward");
}

BOOST_AUTO_TEST_CASE(OnePushAParcelIsOnItsWayAndTheNextWaits) {
  World w({kAsync});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  const Push first = w.said<Push>().at(0);
  w.work(2, 1);
  w.reply_all();
  w.compute(1);
  BOOST_TEST(w.said<Push>().empty());
  w.acknowledge(first);
  const auto second = w.said<Push>();
  BOOST_TEST_REQUIRE(second.size() == 1u);
  BOOST_TEST(second[0].step == 1);
  BOOST_TEST(second[0].sequence == first.sequence + 1);
  BOOST_TEST(w.said<Pull>().back().step == 2);
}

BOOST_AUTO_TEST_CASE(AStepWithoutSamplesComputesNothingAndStillCounts) {
  World w({kSync, kReduced});
  w.work(1, 0, 0);
  w.reply_all();
  BOOST_TEST(w.given() == "reduce {1 and apply}");
  const auto pushes = w.said<Push>();
  BOOST_TEST_REQUIRE(pushes.size() == 1u);
  BOOST_TEST(pushes[0].samples == 0);
  BOOST_TEST(pushes[0].gradients.empty());
  w.acknowledge(pushes[0]);
  BOOST_TEST(w.said<WorkDone>().empty());  // the reduced layer is still on its way
  w.take(w.core->applied_locally(0, 1, {1, filled(1), {}, 1}));
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

// ---- what comes twice, late or from before ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(RepetitionsChangeNothing) {
  World w({kSync});
  w.work(1, 0);
  const Pull pull = w.said<Pull>().at(0);
  w.said<WorkRequest>();
  w.work(1, 0);
  BOOST_TEST(w.said<Pull>().empty());
  const PullReply reply{0, 0, pull.ticket, {filled(1)}};
  w.hear(w.server_of(0), reply);
  w.given();
  w.hear(w.server_of(0), reply);
  BOOST_TEST(w.given() == "");
  w.compute(0);
  const Push push = w.said<Push>().at(0);
  w.acknowledge(push);
  w.acknowledge(push);
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  w.hear(kCoordinator, WorkDoneAck{1});
  w.hear(kCoordinator, WorkDoneAck{1});
  w.take(w.core->tick());
  BOOST_TEST(w.said<WorkDone>().empty());
}

BOOST_AUTO_TEST_CASE(AReplyWithAnOldTicketIsIgnored) {
  World w({kSync});
  w.work(1, 0);
  const Pull pull = w.said<Pull>().at(0);
  w.hear(w.server_of(0), PullReply{0, 0, pull.ticket + 1, {filled(1)}});
  w.hear(w.server_of(0), PullReply{7, 0, pull.ticket, {filled(1)}});  // no such parcel
  BOOST_TEST(w.given() == "");
}

BOOST_AUTO_TEST_CASE(AnAcknowledgementOfAnotherPushIsIgnored) {
  World w({kSync});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  const Push push = w.said<Push>().at(0);
  w.hear(w.server_of(0), PushAck{push.sequence + 1, 0, 0});
  w.hear(w.server_of(0), PushAck{push.sequence, 9, 0});
  BOOST_TEST(w.said<WorkDone>().empty());
}

BOOST_AUTO_TEST_CASE(WhatAnOlderGenerationSaysIsIgnored) {
  World w({kSync});
  w.generation = 2;
  w.join();
  w.said<WorkRequest>();
  w.hear_under(1, kCoordinator, Work{1, Work::Kind::train, 0, 0, 8, {0, 0, 4}});
  BOOST_TEST(w.said<Pull>().empty());
  w.work(1, 0);
  const Pull pull = w.said<Pull>().at(0);
  w.hear_under(1, w.server_of(0), PullReply{0, 0, pull.ticket, {filled(1)}});
  BOOST_TEST(w.given() == "");
  w.hear_under(1, kCoordinator, Membership{1, {5, 5}, {5, 5}, w.layout, {}});
  BOOST_TEST(!w.finished);
}

BOOST_AUTO_TEST_CASE(WhatIsNotAnsweredIsSaidAgain) {
  World w({kSync, kSync});
  w.work(1, 0);
  w.reply(0);
  w.sent.clear();
  w.take(w.core->tick());
  const auto pulls = w.said<Pull>();
  BOOST_TEST_REQUIRE(pulls.size() == 1u);
  BOOST_TEST(pulls[0].parcel == 1u);
  BOOST_TEST(w.said<WorkRequest>().at(0).number == 2u);
  w.hear(w.server_of(1), PullReply{1, 0, pulls[0].ticket, {filled(0)}});
  w.compute(0);
  auto pushes = w.said<Push>();
  w.acknowledge(pushes[0]);
  w.take(w.core->tick());
  const auto again = w.said<Push>();
  BOOST_TEST_REQUIRE(again.size() == 1u);
  BOOST_TEST(again[0].sequence == pushes[1].sequence);
  BOOST_TEST(again[0].parcel == pushes[1].parcel);
  w.acknowledge(pushes[1]);
  w.said<WorkDone>();
  w.take(w.core->tick());
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
}

// ---- membership -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(ARefusedPushIsSaidAgainUnderTheNewGeneration) {
  World w({kAsync});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  const Push push = w.said<Push>().at(0);
  w.hear(w.server_of(0), Refused{Refused::Reason::stale_generation, "", push.sequence, 0, 0});
  BOOST_TEST(w.said<Push>().empty());
  w.generation = 2;
  w.servers[w.layout->parcels[0].server] = 2;
  w.sent.clear();
  w.join();
  const auto said_again = [&](const Envelope& e) { return std::holds_alternative<Push>(e.body); };
  const auto found = std::find_if(w.sent.begin(), w.sent.end(), said_again);
  BOOST_TEST_REQUIRE((found != w.sent.end()));
  BOOST_TEST((found->to == w.server_of(0)));
  BOOST_TEST(found->generation == 2u);
  BOOST_TEST(std::get<Push>(found->body).sequence == push.sequence);
  BOOST_TEST(w.said<Pull>().size() == 1u);  // and the pull behind it
}

namespace {

/// Another server takes the place of the one that holds this parcel.
void replace_server(World& w, ParcelId parcel) {
  ++w.generation;
  ++w.servers[w.layout->parcels[parcel].server];
  w.sent.clear();
  w.join();
}

}  // namespace

BOOST_AUTO_TEST_CASE(WhatWasReadAheadOfAServerThatIsReplacedIsReadAgain) {
  for (const Policy policy : {kSync, kAsync}) {
    World w({policy, policy});
    w.work(1, 0);
    w.reply_all();
    w.compute(0);
    w.reply_all();  // for step 1
    for (const Push& push : w.said<Push>()) w.acknowledge(push);
    w.given();
    replace_server(w, 0);
    w.work(2, 1);
    const auto pulls = w.said<Pull>();
    BOOST_TEST_REQUIRE(pulls.size() == 1u);
    BOOST_TEST(pulls[0].parcel == 0u);
    BOOST_TEST(pulls[0].step == 1);
    BOOST_TEST(w.given() == "");
    w.hear(w.server_of(0), PullReply{0, 1, pulls[0].ticket, {filled(7)}});
    BOOST_TEST(w.given() == "forward 0-2, backward");
    BOOST_TEST(w.core->weights(Work{2})[0].data<float>()[0] == 7);
  }
}

BOOST_AUTO_TEST_CASE(AStepThatHasBegunKeepsWhatItReadOfAServerThatIsReplaced) {
  World w({kSync, kSync});
  w.work(1, 0);
  w.reply(1, 3);  // layer 0's have not come, so that layer 1's wait
  replace_server(w, 1);
  const auto pulls = w.said<Pull>();
  BOOST_TEST_REQUIRE(pulls.size() == 1u);
  BOOST_TEST(pulls[0].parcel == 0u);
  w.hear(w.server_of(0), PullReply{0, 0, pulls[0].ticket, {filled(7)}});
  BOOST_TEST(w.given() == "forward 0-2, backward");
  BOOST_TEST(w.core->weights(Work{1})[1].data<float>()[0] == 3);
}

BOOST_AUTO_TEST_CASE(ATestThatWaitsReadsAgainOfAServerThatIsReplaced) {
  World w({kSync, kSync});
  w.work(1, 0, 10, Work::Kind::evaluate);
  w.reply(1, 3);
  replace_server(w, 1);
  const auto pulls = w.said<Pull>();
  BOOST_TEST_REQUIRE(pulls.size() == 2u);
  for (const Pull& pull : pulls) w.hear(w.server_of(pull.parcel), PullReply{pull.parcel, 0, pull.ticket, {filled(5)}});
  BOOST_TEST(w.given() == "evaluate");
  BOOST_TEST(w.core->weights(Work{1})[1].data<float>()[0] == 5);
}

BOOST_AUTO_TEST_CASE(AMembershipWithAnotherLayoutThatSaysNoStepIsAFault) {
  World w({kSync, kSync});
  w.layout = std::make_shared<Layout>(
      make_layout(w.layers, {kSync, kSync}, {.servers = 2, .slice_bytes = 64, .fuse_bytes = 0}));
  ++w.generation;
  w.sent.clear();
  w.join();
  BOOST_TEST(w.said<Fault>().size() == 1u);
  BOOST_TEST(w.said<MembershipAck>().empty());
}

BOOST_AUTO_TEST_CASE(AWorkerThatHasJustBegunHeedsNoCoordinatorFromBeforeItsOrder) {
  WorkerOptions options;
  options.since = 5;
  World w({kSync}, options);
  BOOST_TEST(w.said<MembershipAck>().empty());
  w.hear_under(4, kCoordinator, Finish{});
  BOOST_TEST(!w.finished);
  w.generation = 5;
  w.join();
  BOOST_TEST(w.said<MembershipAck>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AMembershipIsAcknowledgedEachTimeItComes) {
  World w({kSync});
  BOOST_TEST(w.said<MembershipAck>().size() == 1u);
  w.join();
  BOOST_TEST(w.said<MembershipAck>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(AReplacedWorkerEnds) {
  World by_membership({kSync});
  by_membership.generation = 2;
  by_membership.workers[0] = 2;
  by_membership.join();
  BOOST_TEST(by_membership.finished);
  World by_server({kSync});
  by_server.hear(by_server.server_of(0), Refused{Refused::Reason::stale_incarnation});
  BOOST_TEST(by_server.finished);
  World by_coordinator({kSync});
  by_coordinator.hear(kCoordinator, Finish{});
  BOOST_TEST(by_coordinator.finished);
}

BOOST_AUTO_TEST_CASE(AMalformedRequestIsAFault) {
  World w({kSync});
  w.hear(w.server_of(0), Refused{Refused::Reason::malformed, "17 elements instead of 16", 1, 0, 3});
  const auto faults = w.said<Fault>();
  BOOST_TEST_REQUIRE(faults.size() == 1u);
  BOOST_TEST(faults[0].what == "worker 0: a server refused parcel 0 of step 3: 17 elements instead of 16");
}

// ---- all_reduce layers ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AReducedLayerIsAppliedAtOnceAndTheNextForwardWaitsForIt) {
  World w({kReduced, kSync});
  w.work(1, 0);
  w.reply_all();
  const Backward backward = std::get<Backward>(w.tasks.back());
  BOOST_TEST(backward.buckets.at(0).at(0).apply->gradient_scale == 1.0 / 8);  // of the whole step's samples
  BOOST_TEST(w.given() == "forward 0-1, forward 1-2, backward {0 and apply}");
  w.gradient(0, 1);
  w.backward(0);
  BOOST_TEST(w.given() == "");
  w.work(2, 1);
  w.reply(1);
  w.take(w.core->applied_locally(0, 0, {0, filled(2), {}, 1}));
  BOOST_TEST(w.given() == "forward 0-2, backward {0 and apply}");
  BOOST_TEST(w.core->weights(Work{2})[0].data<float>()[0] == 2);
  BOOST_TEST(w.said<Pull>().size() == 3u);  // of the reduced layer there is only the first
}

BOOST_AUTO_TEST_CASE(ReducedLayersGoInBucketsLastLayerFirst) {
  World w({kReduced, kReduced, kSync, kReduced}, {.bucket_bytes = 2 * kCount * 4});
  w.work(1, 0);
  w.reply_all();
  BOOST_TEST(std::get<Backward>(w.tasks.back()).buckets.size() == 2u);
  w.tasks.erase(w.tasks.begin(), w.tasks.end() - 1);
  BOOST_TEST(w.given() == "backward {3 and apply 1 and apply} {0 and apply}");
}

BOOST_AUTO_TEST_CASE(AStagesGradientsComeInAnyOrderAndItsBucketsInOne) {
  World w({kReduced, kReduced, kReduced}, {.bucket_bytes = kCount * 4},
          {.servers = 2, .fuse_bytes = 4 * kCount, .stages = 2, .stage_of = {0, 0, 1}});
  w.work(1, 0);
  for (const ParcelId parcel : {0u, 1u}) w.reply(parcel);
  BOOST_TEST(std::get<Backward>(w.tasks.back()).buckets.empty());
  w.given();
  w.gradient(0, 0);
  BOOST_TEST(w.given() == "");
  w.gradient(0, 1);
  BOOST_TEST(w.given() == "reduce {1 and apply}, reduce {0 and apply}");
}

BOOST_AUTO_TEST_CASE(AWorkerWithoutSamplesBringsTheSameBuckets) {
  World w({kReduced, kReduced}, {.bucket_bytes = kCount * 4});
  w.work(1, 0, 0);
  w.reply_all();
  BOOST_TEST(w.given() == "reduce {1 and apply}, reduce {0 and apply}");
}

BOOST_AUTO_TEST_CASE(WithClippingReducedLayersWaitForTheVerdict) {
  World w({kReduced, kReduced}, {.clip_norm = 1});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  w.given();
  w.take(w.core->reduced(0, 1, filled(8), 640, true));
  BOOST_TEST(w.said<Partial>().empty());
  w.take(w.core->reduced(0, 0, filled(8), 1280, true));
  const auto partials = w.said<Partial>();
  BOOST_TEST_REQUIRE(partials.size() == 1u);
  BOOST_TEST(partials[0].sum_of_squares == (640 + 1280) / 64.0);  // of the mean over 8 samples
  BOOST_TEST(w.given() == "");
  w.hear(kCoordinator, Verdict{0, false, 0.5});
  BOOST_TEST(w.given() == "apply 0, apply 1");
}

BOOST_AUTO_TEST_CASE(ASkippedStepLeavesReducedLayersAsTheyAre) {
  World w({kReduced}, {.skip_non_finite = true});
  w.work(1, 0);
  w.reply(0, 7);
  w.compute(0);
  w.given();
  w.take(w.core->reduced(0, 0, filled(8), 640, false));
  BOOST_TEST(!w.said<Partial>().at(0).finite);
  w.hear(kCoordinator, Verdict{0, true, 1});
  BOOST_TEST(w.given() == "");
  BOOST_TEST(w.said<WorkDone>().size() == 1u);
  w.work(2, 1);
  BOOST_TEST(w.given() == "forward 0-1, backward");  // whose gradients wait for its end
  BOOST_TEST(w.core->weights(Work{2})[0].data<float>()[0] == 7);
}

BOOST_AUTO_TEST_CASE(ReducedLayersAreBroughtHomeToEveryServerThatHoldsThem) {
  World w({kReduced, kReduced});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  for (const LayerId layer : {1u, 0u}) w.take(w.core->applied_locally(0, layer, {layer, filled(2), {}, 1}));
  w.said<WorkDone>();
  w.work(2, 1, 0, Work::Kind::upload);
  const auto installs = w.said<Install>();
  BOOST_TEST_REQUIRE(installs.size() == 2u);
  BOOST_TEST(installs[0].slices.at(0).values.data<float>()[0] == 2);
  BOOST_TEST(installs[0].slices.at(0).updates == 1);
  w.hear({Role::server, 0, 1}, InstallAck{2});
  w.hear({Role::server, 0, 1}, InstallAck{2});
  BOOST_TEST(w.said<WorkDone>().empty());
  w.hear({Role::server, 1, 1}, InstallAck{2});
  BOOST_TEST((w.said<WorkDone>().at(0).kind == Work::Kind::upload));
}

// ---- gradients that are not finite, and clipping ----------------------------------------------------------

BOOST_AUTO_TEST_CASE(UnderStopANaNIsAFaultNamingLayerWorkerAndStep) {
  World w({kSync, kAsync, kSync});
  w.work(1, 5);
  w.reply_all();
  w.gradient(5, 2);
  w.said<Push>();
  w.gradient(5, 1, std::nanf(""), false);
  w.gradient(5, 0);
  w.backward(5);
  const auto faults = w.said<Fault>();
  BOOST_TEST_REQUIRE(faults.size() == 1u);
  BOOST_TEST(faults[0].what.find("layer fc2 on worker 0 in step 5 holds NaN or Inf") != std::string::npos);
  BOOST_TEST(w.said<Push>().empty());
  BOOST_TEST(w.said<WorkDone>().empty());
}

BOOST_AUTO_TEST_CASE(UnderSkipANaNFlagsEveryPushOfTheStep) {
  World w({kSync, kAsync, kReduced}, {.skip_non_finite = true});
  w.work(1, 5);
  w.reply_all();
  w.given();
  w.gradient(5, 2);
  w.gradient(5, 1, std::nanf(""), false);
  w.gradient(5, 0);
  BOOST_TEST(w.said<Push>().empty());
  w.backward(5);
  const auto pushes = w.said<Push>();
  BOOST_TEST_REQUIRE(pushes.size() == 2u);
  for (const Push& push : pushes) {
    BOOST_TEST(!push.finite);
    BOOST_TEST(push.samples == 0);
    BOOST_TEST(push.gradients.empty());
    w.acknowledge(push);
  }
  // The sum of all workers' gradients says it to the others.
  BOOST_TEST_REQUIRE(w.tasks.size() == 1u);
  BOOST_TEST(std::isnan(std::get<Bucket>(w.tasks[0]).at(0).gradient.data<float>()[0]));
  w.take(w.core->reduced(5, 2, filled(std::nanf("")), 0, false));
  w.hear(kCoordinator, Verdict{5, true, 1});
  BOOST_TEST(w.said<WorkDone>().at(0).non_finite == "layer fc2");
  BOOST_TEST(w.said<Fault>().empty());
}

BOOST_AUTO_TEST_CASE(AnImmediatePushIsScaledToTheNormOfItsOwnMean) {
  World w({kAsync, kSync}, {.clip_norm = 2});
  w.work(1, 0);
  w.reply_all();
  w.compute(0, 4);  // mean 1 in 64 elements: norm 8
  const auto pushes = w.said<Push>();
  BOOST_TEST_REQUIRE(pushes.size() == 2u);
  for (const Push& push : pushes) BOOST_TEST(push.scale == (push.parcel == 0 ? 0.25 : 1.0));
}

// ---- evaluation -------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(AnEvaluationSeesWhatTheServersHoldNow) {
  World w({kAsync});
  w.work(1, 0);
  w.reply_all();
  w.compute(0);
  w.reply(0, 1);  // read ahead for step 1
  w.acknowledge(w.said<Push>().at(0));
  w.said<WorkDone>();
  w.said<Pull>();
  w.work(2, 1, 10, Work::Kind::evaluate);
  w.reply(0, 2);  // it was asked for again
  BOOST_TEST(w.given() == "forward 0-1, backward, evaluate");
  BOOST_TEST(w.core->weights(Work{2})[0].data<float>()[0] == 2);
  w.take(w.core->evaluated({3, 9, 10}, 0.1));
  const auto done = w.said<WorkDone>();
  BOOST_TEST_REQUIRE(done.size() == 1u);
  BOOST_TEST((done[0].kind == Work::Kind::evaluate));
  BOOST_TEST(done[0].stats.correct == 9);
}

// ---- stages of an asynchronous pipeline ---------------------------------------------------------------------

namespace {

float weight(const World& w, uint64_t work) { return w.core->weights(Work{work})[0].data<float>()[0]; }

}  // namespace

BOOST_AUTO_TEST_CASE(StepsOverlapAndEachComputesWithTheVersionThatLagsBehindIt) {
  World w({kSync}, {.weight_lag = 2});
  w.work(1, 0);
  w.reply(0, 10);
  for (const Step step : {1, 2}) w.work(static_cast<uint64_t>(step) + 1, step);
  BOOST_TEST(w.given() == "forward 0-1, backward, forward 0-1, backward, forward 0-1, backward");
  BOOST_TEST(w.said<Pull>().size() == 1u);  // one version for all three
  w.work(4, 3);
  BOOST_TEST(w.given() == "prepare 3");  // as many are under way as may be
  w.compute(0);
  BOOST_TEST(w.given() == "");
  w.reply(0, 11);
  BOOST_TEST(w.given() == "forward 0-1, backward");
  BOOST_TEST(weight(w, 2) == 10);
  BOOST_TEST(weight(w, 3) == 10);
  BOOST_TEST(weight(w, 4) == 11);
}

BOOST_AUTO_TEST_CASE(APushLeavesWhenTheVersionThatItReplacesHasCome) {
  World w({kSync}, {.weight_lag = 2});
  w.work(1, 0);
  w.reply(0);
  for (const Step step : {1, 2}) w.work(static_cast<uint64_t>(step) + 1, step);
  for (const Step step : {0, 1, 2}) w.compute(step);
  const std::vector<Push> first = w.said<Push>();
  BOOST_TEST_REQUIRE(first.size() == 1u);
  w.acknowledge(first[0]);
  BOOST_TEST(w.said<Push>().empty());
  w.reply(0);
  const std::vector<Push> second = w.said<Push>();
  BOOST_TEST_REQUIRE(second.size() == 1u);
  BOOST_TEST(second[0].step == 1);
  w.reply(0);  // of version 2; the push of step 2 has to wait for its acknowledgement still
  BOOST_TEST(w.said<Push>().empty());
  w.acknowledge(second[0]);
  BOOST_TEST(w.said<Push>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(BehindABoundaryNoOlderVersionIsRead) {
  World w({kSync}, {.weight_lag = 2});
  w.work(1, 0);
  w.reply(0, 10);
  w.work(2, 1);
  for (const Step step : {0, 1}) {
    w.compute(step);
    w.acknowledge(w.said<Push>().at(0));
    w.reply(0, static_cast<float>(11 + step));
  }
  for (const Step step : {2, 3, 4}) {
    Work work{static_cast<uint64_t>(step) + 1, Work::Kind::train, step, step, 8, {0, 0, 4}, 2};
    w.hear(kCoordinator, work);
    BOOST_TEST(weight(w, work.number) == 12);
  }
}

BOOST_AUTO_TEST_CASE(AStepWithoutSamplesWaitsForThoseBeforeIt) {
  World w({kSync}, {.weight_lag = 2});
  w.work(1, 0);
  w.reply(0);
  w.work(2, 1, 0);
  BOOST_TEST(w.said<Push>().empty());
  w.compute(0);
  w.acknowledge(w.said<Push>().at(0));
  w.reply(0);
  const std::vector<Push> empty = w.said<Push>();
  BOOST_TEST_REQUIRE(empty.size() == 1u);
  BOOST_TEST(empty[0].step == 1);
  BOOST_TEST(empty[0].samples == 0);
}

BOOST_AUTO_TEST_CASE(AnEvaluationBeginsWhenNothingIsUnderWay) {
  World w({kSync}, {.weight_lag = 1});
  w.work(1, 0);
  w.reply(0);
  w.given();
  w.work(2, 1, 4, Work::Kind::evaluate);
  BOOST_TEST(w.given() == "");
  w.compute(0);
  w.reply(0, 5);
  BOOST_TEST(w.given() == "evaluate");
}

BOOST_AUTO_TEST_CASE(LayersThatAreNotReadByVersionAreRefused) {
  for (const Policy& policy : {kAsync, kReduced}) {
    World w({kSync, policy}, {.weight_lag = 1});
    const std::vector<Fault> faults = w.said<Fault>();
    BOOST_TEST_REQUIRE(faults.size() == 1u);
    BOOST_TEST(faults[0].what.find(cat("layer fc2 is ", describe(policy))) != std::string::npos, faults[0].what);
  }
}

BOOST_AUTO_TEST_SUITE_END()
