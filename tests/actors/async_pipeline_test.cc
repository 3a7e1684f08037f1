#include <boost/test/unit_test.hpp>

#include <map>
#include <set>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/data/sampler.h>
#include <troupe/ps/param/held_slice.h>

#include <tests/support/pipeline_lab.h>

using namespace troupe;
using namespace troupe::test;

// PipeDream and PipeDream-2BW in real runs, against their semantics written out: one loop, one thread, no pipeline,
// every version of the weights kept.
BOOST_AUTO_TEST_SUITE(async_pipeline)

namespace {

Bench deep(int64_t samples = 512) {
  Bench bench;
  bench.model.hidden = {24, 20, 18, 16, 14};
  bench.model.dropout = 0.2;
  bench.data.samples = samples;
  return bench;
}

/// The run that `parts` describe, step after step: stage s of p computes step t with version max(since, t - lag) of its
/// weights, where lag is p - 1 - s (PipeDream) or 1 (2BW) and `since` the last step at which the run stood still; the
/// step's gradient makes version t + 1 of version t.
class Reference {
 public:
  Reference(const ClusterParts& parts, const Pipeline& pipeline)
      : parts_(parts), pipeline_(pipeline), layers_(parts.coordinator.layers) {
    const ps::CoordinatorOptions& c = parts.coordinator;
    layout_ = std::make_shared<ps::Layout>(ps::make_layout(layers_, c.policies, {.slice_bytes = 1 << 30}));
    BOOST_REQUIRE(layout_->slices.size() == layers_.size());
    for (const ps::Slice& slice : layout_->slices)
      held_.emplace_back(*layout_, slice, parts.initial(slice), *parts.optimizer);
    versions_[c.resume ? c.resume->step : 0] = now();
    for (ps::WorkerId w = 0; w < c.dealer.worker_batch.size(); ++w) sources_.push_back(parts.stage_source(w));
  }

  void run(const std::set<ps::Step>& stood_still) {
    ps::DealerOptions options = parts_.coordinator.dealer;
    options.stages = pipeline_.stages;
    ps::Dealer dealer = ps::Dealer::make(options, parts_.coordinator.resume).value();
    while (dealer.peek(0)) {
      std::vector<ps::Deal> deals;  // by replica
      for (ps::WorkerId w = 0; w < sources_.size(); ++w)
        if (const ps::Deal deal = *dealer.next(w); w % pipeline_.stages == 0) deals.push_back(deal);
      const ps::Step step = deals[0].step, since = *--stood_still.upper_bound(step);
      losses.push_back(0);
      std::vector<std::vector<Tensor>> gradients;  // by replica, layer
      for (uint32_t replica = 0; replica < deals.size(); ++replica)
        if (deals[replica].range.count > 0) gradients.push_back(compute(replica, deals[replica], since));
      update(step, deals[0], gradients);
    }
  }

  std::vector<float> parameters() const {
    std::vector<float> all;
    for (const Tensor& values : now()) all.insert(all.end(), values.span<float>().begin(), values.span<float>().end());
    return all;
  }

  std::vector<double> losses;  ///< by step

 private:
  std::vector<Tensor> now() const {
    std::vector<Tensor> values;
    for (const ps::HeldSlice& slice : held_) values.push_back(slice.values());
    return values;
  }

  ps::Step lag(uint32_t stage) const {
    return pipeline_.schedule == "pipedream" ? pipeline_.stages - 1 - stage : 1;
  }

  std::vector<Tensor> compute(uint32_t replica, const ps::Deal& deal, ps::Step since) {
    const uint32_t p = pipeline_.stages;
    const auto source = [&](uint32_t stage) -> StageSource& { return *sources_[replica * p + stage]; };
    const auto weights = [&](uint32_t stage) -> std::span<const Tensor> {
      return versions_.at(std::max(since, deal.step - lag(stage)));
    };
    int64_t begin = deal.range.begin;
    uint32_t index = 0;
    for (const int64_t count : ps::equal_split(deal.range.count, pipeline_.micro_batches)) {
      std::vector<uint32_t> samples(static_cast<size_t>(count));
      ps::Sampler(parts_.coordinator.dealer.train_samples, parts_.seed, parts_.shuffle)
          .indices(deal.range.epoch, begin, samples);
      const uint64_t piece = derive_seed(parts_.seed, "step", static_cast<uint64_t>(deal.step));
      MicroBatch micro;
      micro.index = index++;
      micro.samples = samples;
      micro.first_sample = begin - deal.range.begin;
      micro.seed = derive_seed(piece, "worker", replica);
      micro.step = deal.step;
      begin += count;
      Tensor x, dy;
      for (uint32_t stage = 0; stage < p; ++stage) x = source(stage).forward(micro, weights(stage), std::move(x));
      for (uint32_t stage = p; stage-- > 0;) {
        dy = source(stage).backward_input(micro, weights(stage), std::move(dy));
        source(stage).backward_weight(micro, weights(stage));
      }
    }
    losses.back() += source(p - 1).take_stats().loss_sum;
    std::vector<Tensor> gradients;
    for (size_t layer = 0; layer < layers_.size(); ++layer)
      gradients.push_back(source(parts_.coordinator.layout.stage_of[layer]).take_gradient(layer));
    return gradients;
  }

  void update(ps::Step step, const ps::Deal& deal, const std::vector<std::vector<Tensor>>& gradients) {
    for (size_t layer = 0; layer < held_.size(); ++layer) {
      std::vector<std::span<const float>> sum;
      for (const auto& replica : gradients) sum.push_back(replica[layer].span<float>());
      ps::SliceUpdate update;
      update.gradients = sum;
      update.gradient_scale = 1 / static_cast<double>(deal.step_samples);
      update.schedule_step = deal.schedule_step;
      held_[layer].apply(*parts_.optimizer, update);
    }
    versions_[step + 1] = now();
  }

  const ClusterParts& parts_;
  const Pipeline pipeline_;
  std::vector<LayerSpec> layers_;
  std::shared_ptr<const ps::Layout> layout_;
  std::vector<ps::HeldSlice> held_;
  std::map<ps::Step, std::vector<Tensor>> versions_;
  std::vector<std::unique_ptr<StageSource>> sources_;  // by worker
};

ClusterParts parts_of(const Bench& bench, const Pipeline& pipeline, const std::vector<int64_t>& batch, int64_t steps) {
  ClusterParts parts = pipeline_parts(bench, pipeline, batch, {kSync});
  parts.coordinator.dealer.max_steps = steps;
  parts.coordinator.dealer.epochs = 0;
  return parts;
}

void check_equal(const ClusterParts& parts, const Pipeline& pipeline, const std::set<ps::Step>& stood_still = {0}) {
  Reference expected(parts, pipeline);
  expected.run(stood_still);
  const Trial actual = train(parts);
  BOOST_TEST_CONTEXT(pipeline.schedule << ", " << pipeline.stages << " stages, " << pipeline.micro_batches
                                       << " micro-batches, " << actual.steps.size() << " steps") {
    BOOST_REQUIRE_MESSAGE(actual.result.outcome == ps::Outcome::completed, actual.result.failure);
    BOOST_TEST((actual.parameters() == expected.parameters()));
    BOOST_REQUIRE(actual.steps.size() == expected.losses.size());
    for (size_t step = 0; step < actual.steps.size(); ++step)
      BOOST_TEST(actual.steps[step].stats.loss_sum == expected.losses[step]);
  }
}

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> all;
  for (const uint32_t stages : {2u, 3u, 4u}) {
    all.push_back({"pipedream", stages, 1});
    for (const uint32_t micro_batches : {1u, 2u, 3u, 4u, 7u}) all.push_back({"pipedream-2bw", stages, micro_batches});
  }
  return all;
}

}  // namespace

// Batches that no number of micro-batches divides, with dropout.
BOOST_AUTO_TEST_CASE(ARunIsItsStaleSemanticsWrittenOutBitForBit) {
  for (const Pipeline& pipeline : pipelines()) check_equal(parts_of(deep(), pipeline, {29}, 12), pipeline);
}

BOOST_AUTO_TEST_CASE(ReplicasOfStagesAreEqualToIt) {
  for (const Pipeline& pipeline : {Pipeline{"pipedream", 3, 1}, Pipeline{"pipedream-2bw", 3, 4}})
    check_equal(parts_of(deep(), pipeline, {13, 10}, 12), pipeline);
}

// 150 samples in steps of 64, 64 and 22, an evaluation behind each epoch; the second replica gets none of the last.
BOOST_AUTO_TEST_CASE(AnEpochsShortLastBatchAndItsEvaluationAreEqualToIt) {
  for (const Pipeline& pipeline : {Pipeline{"pipedream", 4, 1}, Pipeline{"pipedream-2bw", 2, 4}}) {
    ClusterParts parts = pipeline_parts(deep(150), pipeline, {64}, {kSync});
    parts.coordinator.dealer.epochs = 3;
    parts.coordinator.evaluate_every_epochs = 1;
    check_equal(parts, pipeline, {0, 3, 6});
  }
  const Pipeline pipeline{"pipedream", 3, 1};
  ClusterParts parts = pipeline_parts(deep(41), pipeline, {19, 1}, {kSync});
  parts.coordinator.dealer.epochs = 4;
  check_equal(parts, pipeline);
}

// Before a checkpoint the pipeline drains, and behind it every stage begins with what the checkpoint holds.
BOOST_AUTO_TEST_CASE(ARunThatGoesOnFromACheckpointIsEqualToTheOneThatWroteIt) {
  for (const Pipeline& pipeline : {Pipeline{"pipedream", 3, 1}, Pipeline{"pipedream-2bw", 3, 4}}) {
    ClusterParts parts = parts_of(deep(), pipeline, {29}, 11);
    parts.coordinator.checkpoint_every_steps = 4;
    check_equal(parts, pipeline, {0, 4, 8});
    const Trial whole = train(parts);
    BOOST_REQUIRE(whole.checkpoints.size() == 3u);
    BOOST_TEST(whole.checkpoints[0].step == 4);
    resume_from(parts, whole.checkpoints[0]);
    const Trial resumed = train(parts);
    BOOST_REQUIRE_MESSAGE(resumed.result.outcome == ps::Outcome::completed, resumed.result.failure);
    BOOST_TEST((resumed.parameters() == whole.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(AReplicaThatLosesAStageGoesOnAndNothingCountsTwice) {
  using At = FailingStage::At;
  for (const Pipeline& pipeline : {Pipeline{"pipedream", 3, 1}, Pipeline{"pipedream-2bw", 3, 4}}) {
    const Trial whole = train(parts_of(deep(), pipeline, {16, 13}, 12));
    for (const ps::WorkerId where : {0u, 1u, 5u})
      for (const At at : {At::forward, At::backward_weight})
        for (const int call : {1, 6, 11}) {
          ClusterParts parts = with_failure(parts_of(deep(), pipeline, {16, 13}, 12), where, at, call);
          parts.coordinator.max_restarts = 1;
          const Trial trial = train(std::move(parts));
          BOOST_TEST_CONTEXT(pipeline.schedule << ", worker " << where << ", call " << call) {
            BOOST_REQUIRE_MESSAGE(trial.result.outcome == ps::Outcome::completed, trial.result.failure);
            BOOST_TEST(trial.result.worker_restarts == 1);
            BOOST_TEST(trial.result.samples == 12 * 29);
            BOOST_TEST(trial.steps.size() == 12u);
            for (size_t layer = 0; layer < whole.result.layers.size(); ++layer)
              BOOST_TEST(trial.result.layers[layer].updates == whole.result.layers[layer].updates);
          }
        }
  }
}

BOOST_AUTO_TEST_CASE(LayersThatAreNotReadByVersionEndTheRun) {
  ClusterParts parts = parts_of(deep(), {"pipedream", 2, 1}, {16}, 4);
  parts.coordinator.policies[1] = kAsync;
  const Trial trial = train(std::move(parts));
  BOOST_TEST((trial.result.outcome == ps::Outcome::failed));
  BOOST_TEST(trial.result.failure.find("layer fc2 is async; an asynchronous pipeline needs sync layers") !=
             std::string::npos, trial.result.failure);
}

BOOST_AUTO_TEST_SUITE_END()
