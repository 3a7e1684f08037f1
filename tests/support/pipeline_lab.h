#pragma once
#include <atomic>

#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/ps/pipeline/stage_plan.h>

#include <tests/support/cluster_lab.h>

/// Clusters whose workers are stages.
namespace troupe::test {

struct Pipeline {
  std::string schedule = "1f1b";
  uint32_t stages = 2;
  uint32_t micro_batches = 4;
  uint32_t chunks = 1;
  std::vector<int64_t> cuts;
  bool strict = false;
};

/// As Bench::parts, with `pipeline.stages` workers for each entry of `replica_batch`.
inline ClusterParts pipeline_parts(const Bench& bench, const Pipeline& pipeline,
                                   const std::vector<int64_t>& replica_batch, std::vector<ps::Policy> policies) {
  ClusterParts parts = bench.parts(replica_batch, std::move(policies));
  ps::CoordinatorOptions& c = parts.coordinator;
  c.dealer.worker_batch.clear();
  for (const int64_t batch : replica_batch)
    c.dealer.worker_batch.insert(c.dealer.worker_batch.end(), pipeline.stages, batch);

  const auto model = std::make_shared<const nn::Model>(nn::make_model(bench.model).value());
  const ps::DataSets sets = bench.sets();
  ps::ScheduleOptions options;
  options.name = pipeline.schedule;
  options.stages = pipeline.stages;
  options.micro_batches = pipeline.micro_batches;
  options.chunks = pipeline.chunks;
  if (pipeline.schedule == "pipedream-2bw") options.accumulate = pipeline.micro_batches;
  auto schedule = std::make_shared<const ps::Schedule>(ps::make_schedule(options).value());
  parts.stage.plan = ps::plan_stages(*model, schedule, pipeline.cuts).value();
  parts.stage.strict = pipeline.strict;
  parts.stage.stall_ms = 20'000;
  c.layout.stages = pipeline.stages;
  c.layout.stage_of = parts.stage.plan.stage_of();
  parts.stage.activations = bench.storage;
  parts.stage_source = [model, sets, plan = parts.stage.plan, storage = bench.storage](ps::WorkerId worker) {
    std::vector<nn::ModelPart> held;
    for (uint32_t chunk = 0; chunk < plan.schedule->chunks; ++chunk)
      if (plan.schedule->stage_of[chunk] == worker % plan.schedule->stages)
        held.emplace_back(model, plan.chunks[chunk].first, plan.chunks[chunk].last);
    return std::make_unique<nn::ModelStageSource>(model, std::move(held), sets.train, sets.test, 1, storage);
  };
  return parts;
}

/// A stage that fails once, in its n-th call of some kind.
class FailingStage final : public StageSource {
 public:
  enum class At { forward, backward_input, backward_weight };
  FailingStage(std::unique_ptr<StageSource> source, At at, std::shared_ptr<std::atomic<int>> calls_left)
      : source_(std::move(source)), at_(at), calls_left_(std::move(calls_left)) {}

  const std::vector<LayerSpec>& layers() const override { return source_->layers(); }
  Tensor forward(const MicroBatch& micro, std::span<const Tensor> weights, Tensor x) override {
    count(At::forward);
    return source_->forward(micro, weights, std::move(x));
  }
  Tensor backward_input(const MicroBatch& micro, std::span<const Tensor> weights, Tensor dy) override {
    count(At::backward_input);
    return source_->backward_input(micro, weights, std::move(dy));
  }
  void backward_weight(const MicroBatch& micro, std::span<const Tensor> weights) override {
    count(At::backward_weight);
    source_->backward_weight(micro, weights);
  }
  Tensor take_gradient(size_t layer) override { return source_->take_gradient(layer); }
  StepStats take_stats() override { return source_->take_stats(); }
  void reset() override { source_->reset(); }

 private:
  void count(At at) {
    if (at == at_ && --*calls_left_ == 0) throw std::runtime_error("the device fell off the bus");
  }
  std::unique_ptr<StageSource> source_;
  At at_;
  std::shared_ptr<std::atomic<int>> calls_left_;
};

inline ClusterParts with_failure(ClusterParts parts, ps::WorkerId where, FailingStage::At at, int call) {
  auto left = std::make_shared<std::atomic<int>>(call);
  parts.stage_source = [make = parts.stage_source, where, at,
                        left](ps::WorkerId worker) -> std::unique_ptr<StageSource> {
    auto source = make(worker);
    if (worker != where) return source;
    return std::make_unique<FailingStage>(std::move(source), at, left);
  };
  return parts;
}

}  // namespace troupe::test
