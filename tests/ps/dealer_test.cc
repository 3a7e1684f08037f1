#include <boost/test/unit_test.hpp>

#include <map>
#include <vector>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/data/dealer.h>

using namespace troupe;
using namespace troupe::ps;

namespace {

DealerOptions options(int64_t samples, int64_t epochs, std::vector<int64_t> batches, bool lockstep) {
  DealerOptions o;
  o.train_samples = samples;
  o.epochs = epochs;
  o.worker_batch = std::move(batches);
  o.global_batch = 0;
  for (const int64_t b : o.worker_batch) o.global_batch += b;
  o.lockstep = lockstep;
  return o;
}

Dealer make(const DealerOptions& o, std::optional<DealerState> state = {}) {
  auto dealer = Dealer::make(o, std::move(state));
  BOOST_REQUIRE_MESSAGE(dealer.has_value(), (dealer ? "" : dealer.error().message));
  return *dealer;
}

/// How often each position of each epoch was dealt.
class Coverage {
 public:
  Coverage(int64_t samples, int64_t epochs)
      : samples_(samples), seen_(static_cast<size_t>(samples * epochs)) {}

  void add(const SampleRange& r) {
    for (int64_t i = r.begin; i < r.begin + r.count; ++i) {
      const auto at = static_cast<size_t>(r.epoch * samples_ + i);
      BOOST_REQUIRE_MESSAGE(i < samples_ && at < seen_.size(), "epoch " << r.epoch << ", position " << i);
      ++seen_[at];
    }
  }
  bool each_once() const {
    return std::all_of(seen_.begin(), seen_.end(), [](int n) { return n == 1; });
  }

 private:
  int64_t samples_;
  std::vector<int> seen_;
};

/// Deals all that is left to workers that ask in a seeded random order.
void drain(Dealer& dealer, size_t workers, Random& random, Coverage& coverage) {
  std::vector<bool> ended(workers, false);
  while (std::find(ended.begin(), ended.end(), false) != ended.end()) {
    const auto w = static_cast<WorkerId>(random.below(workers));
    const auto deal = dealer.next(w);
    ended[w] = !deal;
    if (!deal) continue;
    coverage.add(deal->range);
    dealer.completed(w, deal->step);
  }
}

std::string error_of(const DealerOptions& o, std::optional<DealerState> state = {}) {
  const auto dealer = Dealer::make(o, std::move(state));
  return dealer ? "" : dealer.error().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dealer)

BOOST_AUTO_TEST_CASE(EqualSplitGivesTheRestToTheLowerRanks) {
  BOOST_TEST(equal_split(10, 4) == (std::vector<int64_t>{3, 3, 2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(LockstepCutsAStepByWorkerBatch) {
  Dealer d = make(options(640, 1, {48, 16}, true));
  BOOST_TEST((d.next(0)->range == SampleRange{0, 0, 48}));
  BOOST_TEST((d.next(1)->range == SampleRange{0, 48, 16}));
  BOOST_TEST((d.next(1)->range == SampleRange{0, 112, 16}));
  BOOST_TEST((d.next(0)->range == SampleRange{0, 64, 48}));
}

BOOST_AUTO_TEST_CASE(LockstepCutsAShortBatchInProportion) {
  Dealer d = make(options(68, 1, {48, 16}, true));
  (void)d.next(0), (void)d.next(1);
  const Deal a = *d.next(0), b = *d.next(1);
  BOOST_TEST((a.range == SampleRange{0, 64, 3}));
  BOOST_TEST((b.range == SampleRange{0, 67, 1}));
  BOOST_TEST(a.step_samples == 4);
}

BOOST_AUTO_TEST_CASE(AWorkerWithoutSamplesInAShortBatchStillTakesTheStep) {
  Dealer d = make(options(65, 1, {48, 16}, true));
  (void)d.next(0), (void)d.next(1);
  BOOST_TEST(d.next(0)->range.count == 0);
  const Deal b = *d.next(1);
  BOOST_TEST(b.range.count == 1);
  BOOST_TEST(b.step == 1);
  BOOST_TEST(!d.next(1).has_value());
}

BOOST_AUTO_TEST_CASE(EveryPositionOfEveryEpochIsDealtOnce) {
  Random random(5);
  for (const bool lockstep : {true, false})
    for (const auto& batches :
         std::vector<std::vector<int64_t>>{{1}, {4}, {48, 16}, {3, 3, 2, 2}, {1, 9}, {200}})
      for (const int64_t samples : {10, 63, 64, 65, 128, 199}) {
        Dealer d = make(options(samples, 3, batches, lockstep));
        Coverage coverage(samples, 3);
        drain(d, batches.size(), random, coverage);
        BOOST_TEST(coverage.each_once());
        BOOST_TEST(d.done());
        BOOST_TEST(d.samples_dealt() == 3 * samples);
      }
}

BOOST_AUTO_TEST_CASE(OnDemandTheFasterWorkerTakesMore) {
  Dealer d = make(options(100, 1, {10, 10}, false));
  for (int i = 0; i < 8; ++i) BOOST_TEST(d.next(0)->step == i);
  BOOST_TEST((d.next(1)->range == SampleRange{0, 80, 10}));
}

BOOST_AUTO_TEST_CASE(OnDemandAnEpochsShortRestIsHandedOut) {
  Dealer d = make(options(25, 2, {10, 10}, false));
  (void)d.next(0), (void)d.next(0);
  BOOST_TEST((d.next(0)->range == SampleRange{0, 20, 5}));
  BOOST_TEST((d.next(1)->range == SampleRange{1, 0, 10}));
}

BOOST_AUTO_TEST_CASE(MaxStepsEndsALockstepRunAfterThatManySteps) {
  DealerOptions o = options(25, 100, {5, 5}, true);
  o.max_steps = 7;  // an epoch is 10 + 10 + 5
  Dealer d = make(o);
  int steps = 0;
  while (d.next(0)) ++steps;
  BOOST_TEST(steps == 7);
  BOOST_TEST(d.total_schedule_steps() == 6);
}

BOOST_AUTO_TEST_CASE(MaxStepsEndsAnOnDemandRunAfterThatManyGlobalBatches) {
  DealerOptions o = options(1000, 100, {5, 5}, false);
  o.max_steps = 7;
  Dealer d = make(o);
  int64_t samples = 0;
  while (const auto deal = d.next(samples % 2)) samples += deal->range.count;
  BOOST_TEST(samples == 70);
}

BOOST_AUTO_TEST_CASE(ZeroEpochsTrainUntilMaxSteps) {
  DealerOptions o = options(10, 0, {20}, true);
  o.max_steps = 33;
  Dealer d = make(o);
  while (const auto deal = d.next(0)) d.completed(0, deal->step);
  BOOST_TEST(d.samples_dealt() == 330);
}

BOOST_AUTO_TEST_CASE(ARunThatNothingEndsIsAnError) {
  const std::string error = error_of(options(10, 0, {5}, true));
  BOOST_TEST(error.find("both 0") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(ScheduleStepsCountGlobalBatches) {
  Dealer lockstep = make(options(100, 2, {5, 5}, true));
  for (int i = 0; i < 20; ++i) BOOST_TEST(lockstep.next(0)->schedule_step == i);
  Dealer on_demand = make(options(100, 2, {5, 5}, false));
  for (int i = 0; i < 40; ++i) BOOST_TEST(on_demand.next(i % 2)->schedule_step == i / 2);
  BOOST_TEST(on_demand.total_schedule_steps() == 20);
}

BOOST_AUTO_TEST_CASE(TotalStepsCountEachEpochsShortLastBatch) {
  const DealerOptions o = options(68, 3, {48, 16}, true);  // 64 + 4 an epoch
  BOOST_TEST(make(o).total_steps() == 6);
  BOOST_TEST(make(o).total_schedule_steps() == 4);
  DealerOptions ended = o;
  ended.max_steps = 5;
  BOOST_TEST(make(ended).total_steps() == 5);
}

BOOST_AUTO_TEST_CASE(ALockstepRunResumedAtAnyStepDealsTheSame) {
  const DealerOptions o = options(68, 3, {48, 16}, true);  // 64 + 4 an epoch
  std::vector<Deal> whole;
  Dealer reference = make(o);
  while (const auto deal = reference.next(1)) whole.push_back(*deal);
  BOOST_TEST(whole.size() == 6u);
  for (size_t stop = 0; stop <= whole.size(); ++stop) {
    Dealer before = make(o);
    for (size_t i = 0; i < stop; ++i)
      for (WorkerId w = 0; w < 2; ++w) before.completed(w, before.next(w)->step);
    Dealer after = make(o, before.state());
    for (size_t i = stop; i < whole.size(); ++i) BOOST_TEST((*after.next(1) == whole[i]));
    BOOST_TEST(!after.next(1).has_value());
  }
}

// Stops anywhere, with work outstanding, and goes on with other workers, another batch and another mode.
BOOST_AUTO_TEST_CASE(AResumeWithOtherWorkersSeesEverySampleOnce) {
  Random random(11);
  const std::vector<std::vector<int64_t>> splits{{4}, {3, 3, 2, 2}, {48, 16}, {1, 9, 5}};
  for (int round = 0; round < 400; ++round) {
    const auto& first = splits[random.below(splits.size())];
    const auto& second = splits[random.below(splits.size())];
    const int64_t samples = 10 + static_cast<int64_t>(random.below(150));
    Coverage coverage(samples, 3);
    Dealer before = make(options(samples, 3, first, random.chance(0.5)));
    for (uint64_t asked = random.below(60); asked > 0; --asked) {
      const auto w = static_cast<WorkerId>(random.below(first.size()));
      const auto deal = before.next(w);
      if (!deal || random.chance(0.2)) continue;  // never completed: lost with the worker
      coverage.add(deal->range);
      before.completed(w, deal->step);
    }
    Dealer after = make(options(samples, 3, second, random.chance(0.5)), before.state());
    drain(after, second.size(), random, coverage);
    BOOST_TEST(coverage.each_once(), "round " << round);
    BOOST_TEST(after.done());
  }
}

BOOST_AUTO_TEST_CASE(WorkGivenBackIsDealtFirstToWhoeverAsks) {
  Dealer d = make(options(100, 1, {10, 4}, false));
  (void)d.next(0), (void)d.next(1);
  d.give_back(0);
  BOOST_TEST((d.next(1)->range == SampleRange{0, 0, 4}));
  BOOST_TEST((d.next(1)->range == SampleRange{0, 4, 4}));
  BOOST_TEST((d.next(1)->range == SampleRange{0, 8, 2}));
  BOOST_TEST((d.next(1)->range == SampleRange{0, 14, 4}));
}

BOOST_AUTO_TEST_CASE(CompletedWorkIsNotGivenBack) {
  Dealer d = make(options(100, 1, {10, 10}, false));
  d.completed(0, d.next(0)->step);
  d.give_back(0);
  BOOST_TEST((d.next(1)->range == SampleRange{0, 10, 10}));
}

BOOST_AUTO_TEST_CASE(ARestartedWorkerRepeatsItsUncompletedSteps) {
  for (const bool lockstep : {true, false}) {
    Dealer d = make(options(100, 1, {10, 10}, lockstep));
    d.completed(0, d.next(0)->step);
    const Deal second = *d.next(0), third = *d.next(0);
    d.restart(0);
    BOOST_TEST((*d.next(0) == second));
    d.restart(0);
    BOOST_TEST((*d.next(0) == second));
    BOOST_TEST((*d.next(0) == third));
    BOOST_TEST(d.next(0)->step == 3);
  }
}

BOOST_AUTO_TEST_CASE(ARunIsNotDoneWhileWorkIsOutstanding) {
  for (const bool lockstep : {true, false}) {
    Dealer d = make(options(10, 1, {10}, lockstep));
    const Deal deal = *d.next(0);
    BOOST_TEST(!d.done());
    d.completed(0, deal.step);
    BOOST_TEST(d.done());
  }
}

BOOST_AUTO_TEST_CASE(MoreWorkersThanSamplesIsAnErrorThatNamesBoth) {
  const std::string error = error_of(options(3, 1, {1, 1, 1, 1, 1}, true));
  BOOST_TEST(error.find("workers = 5") != std::string::npos, error);
  BOOST_TEST(error.find("3 samples") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(ZeroWorkersIsAnError) {
  const std::string error = error_of(options(3, 1, {}, true));
  BOOST_TEST(error.find("at least one worker") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(BatchesThatDoNotAddUpAreAnErrorWithEveryTerm) {
  DealerOptions o = options(100, 1, {48, 16}, true);
  o.global_batch = 65;
  BOOST_TEST(error_of(o).find("48 + 16 = 64") != std::string::npos, error_of(o));
}

BOOST_AUTO_TEST_CASE(AWorkerWithoutABatchIsAnError) {
  DealerOptions o = options(100, 1, equal_split(3, 4), true);
  BOOST_TEST(error_of(o).find("worker 3 has a batch of 0") != std::string::npos, error_of(o));
}

BOOST_AUTO_TEST_CASE(AStateOfAnotherDataSetIsAnError) {
  const std::string error = error_of(options(100, 1, {10}, true), DealerState{.train_samples = 99});
  BOOST_TEST(error.find("99 samples") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(AStateWithRangesThatCannotBeIsAnError) {
  const std::vector<std::vector<SampleRange>> bad{
      {{0, 5, 10}}, {{1, 0, 1}}, {{0, -1, 2}}, {{0, 0, 0}}, {{0, 0, 4}, {0, 3, 2}}, {{0, 4, 2}, {0, 0, 2}}};
  for (const auto& returned : bad) {
    const DealerState state{.train_samples = 100, .begin = 10, .returned = returned};
    const std::string error = error_of(options(100, 1, {10}, true), state);
    BOOST_TEST(error.find("makes no sense") != std::string::npos, error);
  }
}

// ---- stages of a replica ----

BOOST_AUTO_TEST_CASE(StagesOfAReplicaGetTheSamePieces) {
  for (const bool lockstep : {true, false}) {
    DealerOptions o = options(20, 1, {4, 4, 2, 2}, lockstep);
    o.stages = 2;
    o.global_batch = 6;
    Dealer d = make(o);
    const Deal first = *d.next(1), second = *d.next(1);  // stage 1 of replica 0 is ahead
    BOOST_TEST(d.repeats(0));
    BOOST_TEST((*d.next(0) == first));
    const Deal other = *d.next(3);
    BOOST_TEST((*d.next(2) == other));
    BOOST_TEST((*d.next(0) == second));
    BOOST_TEST(!d.repeats(0));
    BOOST_TEST(first.range.count == 4);
    BOOST_TEST(other.range.count == 2);
  }
}

BOOST_AUTO_TEST_CASE(EverySampleIsDealtToOneReplicaWhateverItsStagesDo) {
  for (const bool lockstep : {true, false})
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Random random(seed);
      DealerOptions o = options(103, 2, {5, 5, 5, 4, 4, 4}, lockstep);
      o.stages = 3;
      o.global_batch = 9;
      Dealer d = make(o);
      std::vector<Coverage> seen(3, Coverage(103, 2));
      std::vector<std::vector<Step>> open(6);
      std::vector<bool> ended(6, false);
      while (std::ranges::find(ended, false) != ended.end()) {
        const auto w = static_cast<WorkerId>(random.below(6));
        if (!open[w].empty() && random.chance(0.5)) {
          d.completed(w, open[w].front());
          open[w].erase(open[w].begin());
          continue;
        }
        const auto deal = d.next(w);
        ended[w] = !deal && open[w].empty();
        if (!deal) continue;
        open[w].push_back(deal->step);
        seen[w % 3].add(deal->range);
      }
      for (const Coverage& stage : seen) BOOST_TEST(stage.each_once());
      BOOST_TEST(d.done());
      BOOST_TEST(d.state().returned.empty());
    }
}

BOOST_AUTO_TEST_CASE(AReplicaRepeatsWhatOneOfItsStagesHadNotCompleted) {
  for (const bool lockstep : {true, false}) {
    DealerOptions o = options(100, 1, {10, 10}, lockstep);
    o.stages = 2;
    o.global_batch = 10;
    Dealer d = make(o);
    for (WorkerId w : {0u, 1u}) d.completed(w, d.next(w)->step);  // step 0 is over
    const Deal one = *d.next(0), two = *d.next(0);
    d.completed(0, one.step);
    BOOST_TEST((*d.next(1) == one));  // and not completed
    d.restart(1);
    for (WorkerId w : {0u, 1u}) BOOST_TEST((*d.next(w) == one));
    BOOST_TEST((*d.next(0) == two));
    BOOST_TEST((*d.next(1) == two));
    BOOST_TEST(d.next(1)->step == two.step + 1);
    // What a checkpoint would say: nothing of it is done, and each range is named once.
    const DealerState state = d.state();
    BOOST_REQUIRE(state.returned.size() == 1u);
    BOOST_TEST((state.returned[0] == SampleRange{0, 10, 30}));
  }
}

BOOST_AUTO_TEST_CASE(WorkersThatMakeUpNoWholeReplicaAreAnError) {
  DealerOptions o = options(100, 1, {10, 10, 10}, true);
  o.stages = 2;
  BOOST_TEST(error_of(o).find("parallel.workers = 3 is not a multiple of parallel.stages = 2") != std::string::npos);
  DealerOptions unequal = options(100, 1, {10, 8}, true);
  unequal.stages = 2;
  BOOST_TEST(error_of(unequal).find("stages of one replica and have batches of 10 and 8") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
