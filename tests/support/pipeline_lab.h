#pragma once
#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/ps/pipeline/stage_plan.h>

#include "tests/support/cluster_lab.h"

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

}  // namespace troupe::test
