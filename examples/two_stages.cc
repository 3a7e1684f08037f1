// A model cut in two: one worker computes its first layers, another the rest, and each batch goes through both in
// parts.
//
//   build/examples/two_stages
//
// It prints what the two stages do in a step (F forward, I gradient of the input, W of the weights, then R and S: the
// sum over replicas, and the update), trains the same model whole and cut, and prints how far apart the two end: a unit
// in the last place or two, because the cut run adds up a batch's gradient part by part.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <troupe/actors/run.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/data/memory_dataset.h>

using namespace troupe;

namespace {

/// What the workers of both runs have in common.
struct Story {
  ps::DataSets sets;
  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const ps::Optimizer> optimizer;
};

ClusterParts parts_of(const Story& story) {
  ClusterParts parts;
  parts.optimizer = story.optimizer;
  parts.source = [story](ps::WorkerId) {
    return std::make_unique<nn::ModelSource>(story.model, story.sets.train, story.sets.test);
  };
  parts.initial = initial_from(parts.source(0), *parts.optimizer, parts.seed);
  parts.coordinator.layers = story.model->layers();
  parts.coordinator.policies.assign(story.model->layers().size(), {ps::Mode::sync});
  parts.coordinator.dealer = {
      .train_samples = story.sets.train->size(), .epochs = 2, .global_batch = 60, .worker_batch = {60}};
  return parts;
}

/// The same with two workers for the one: which layers each computes, and in which order they take the parts of a
/// batch.
ClusterParts in_two_stages(const Story& story, const ps::StagePlan& plan) {
  ClusterParts parts = parts_of(story);
  parts.coordinator.dealer.worker_batch = {60, 60};  // the replica's batch, for each of its stages
  parts.coordinator.layout.stages = 2;
  parts.coordinator.layout.stage_of = plan.stage_of();
  parts.stage.plan = plan;
  parts.stage_source = [story, plan](ps::WorkerId worker) {
    const ps::LayerRange layers = plan.chunks[worker];
    std::vector<nn::ModelPart> mine{nn::ModelPart(story.model, layers.first, layers.last)};
    return std::make_unique<nn::ModelStageSource>(story.model, mine, story.sets.train, story.sets.test);
  };
  return parts;
}

/// All parameters at the end of a run; nothing if it failed.
std::vector<float> train(ClusterParts parts) {
  auto parameters = std::make_shared<std::vector<float>>();
  parts.write_checkpoint = [parameters](const ps::CheckpointRequest& checkpoint) -> Status {
    for (const ps::SliceState& slice : checkpoint.slices) {
      const auto values = slice.values.span<float>();
      parameters->insert(parameters->end(), values.begin(), values.end());
    }
    return {};
  };
  auto run = Run::start(std::move(parts));
  if (!run || (*run)->wait().outcome != ps::Outcome::completed) {
    std::fprintf(stderr, "%s\n", (run ? (*run)->wait().failure : run.error().message).c_str());
    return {};
  }
  return *parameters;
}

}  // namespace

int main() {
  // 600 points of five classes, and a model of four layers for them.
  Story story;
  story.sets = ps::load_dataset({.format = "synthetic", .samples = 600, .features = 16, .classes = 5}).value();
  for (auto* set : {&story.sets.train, &story.sets.test})
    *set = std::dynamic_pointer_cast<const ps::MemoryDataset>(*set)->reshaped({16}).value();
  story.model = std::make_shared<const nn::Model>(
      nn::make_model({.kind = "mlp", .input = {16}, .classes = 5, .hidden = {64, 48, 32}}).value());
  story.optimizer = ps::make_optimizer({.name = "sgd", .learning_rate = 0.05, .momentum = 0.9}).value();

  // Three parts of a batch through two stages: F forward, I gradient of the input, W of the weights.
  const auto schedule = std::make_shared<const ps::Schedule>(
      ps::make_schedule({.name = "1f1b", .stages = 2, .micro_batches = 3}).value());
  for (uint32_t stage = 0; stage < 2; ++stage) {
    std::printf("stage %u:", stage);
    for (const ps::Action& action : schedule->actions[stage])
      std::printf(" %s", ps::action_text(*schedule, action).c_str());
    std::printf("\n");
  }
  const ps::StagePlan plan = ps::plan_stages(*story.model, schedule).value();
  std::printf("layers 0 to %u on stage 0, the others on stage 1\n", plan.chunks[0].last - 1);

  const std::vector<float> whole = train(parts_of(story)), cut = train(in_two_stages(story, plan));
  if (whole.empty() || whole.size() != cut.size()) return 1;
  float apart = 0;
  for (size_t i = 0; i < whole.size(); ++i) apart = std::max(apart, std::abs(whole[i] - cut[i]));
  std::printf("%zu parameters, at most %.1e apart\n", whole.size(), static_cast<double>(apart));
  return apart < 1e-5f ? 0 : 1;
}
