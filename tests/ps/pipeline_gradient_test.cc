#include <boost/test/unit_test.hpp>

#include <cmath>
#include <deque>
#include <numeric>

#include <tests/support/random_samples.h>
#include <troupe/kernels/base/random.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/kernels/nn/model_stage_source.h>
#include <troupe/ps/control/stage_core.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(pipeline_gradient)

namespace {

// 12 layers: one for each of two chunks on six stages. 13 samples: no number of micro-batches from 2 to 8 divides them.
constexpr int64_t kSamples = 13;

struct Trained {
  std::vector<Tensor> gradients;
  double loss_sum = 0;
};

struct Fixture {
  Fixture() {
    nn::ModelSpec spec{.kind = "mlp", .input = {6}, .classes = 4, .hidden = std::vector<int64_t>(11, 8)};
    model = std::make_shared<const nn::Model>(nn::make_model(spec).value());
    data = std::make_shared<test::RandomSamples>(spec.input, spec.classes);
    for (size_t layer = 0; layer < model->layers().size(); ++layer) {
      Tensor values = Tensor::empty({model->layers()[layer].count});
      model->initialize(layer, 5, values.span<float>());
      weights.push_back(std::move(values));
    }
  }

  Trained on_one_device() const {
    std::vector<uint32_t> samples(kSamples);
    std::iota(samples.begin(), samples.end(), 0u);
    Trained out{std::vector<Tensor>(weights.size()), 0};
    nn::ModelSource source(model, data, data);
    out.loss_sum = source.backward({samples, 1}, weights, [&](size_t layer, Tensor gradient) {
      out.gradients[layer] = std::move(gradient);
    }).loss_sum;
    return out;
  }

  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const nn::Dataset> data;
  std::vector<Tensor> weights;
};

/// One replica's stages in one thread: real layers under the cores that actors carry, messages and computations in a
/// random order.
class Replica {
 public:
  Replica(const Fixture& fixture, const StagePlan& plan, uint32_t replica, uint64_t seed)
      : fixture_(fixture), random_(seed), stages_(plan.schedule->stages), first_worker_(replica * stages_) {
    auto layout = std::make_shared<Layout>();
    layout->policies.assign(fixture.weights.size(), {Mode::sync});
    auto membership = std::make_shared<Membership>();
    membership->workers.assign(first_worker_ + stages_, 1);
    membership->layout = std::move(layout);
    nodes_.resize(stages_);
    for (uint32_t stage = 0; stage < stages_; ++stage) {
      StageOptions options;
      options.self = {Role::worker, first_worker_ + stage, 1};
      options.plan = plan;
      options.activations = DType::f32;
      std::vector<nn::ModelPart> parts;
      for (uint32_t chunk = 0; chunk < plan.schedule->chunks; ++chunk) {
        const bool here = plan.schedule->stage_of[chunk] == stage;
        nodes_[stage].part_of.push_back(static_cast<uint32_t>(parts.size()));
        if (here) parts.emplace_back(fixture.model, plan.chunks[chunk].first, plan.chunks[chunk].last);
      }
      nodes_[stage].source =
          std::make_unique<nn::ModelStageSource>(fixture.model, std::move(parts), fixture.data, fixture.data);
      nodes_[stage].core = std::make_unique<StageCore>(options);
      nodes_[stage].core->set_membership(membership, 1);
    }
  }

  /// Adds the gradients of samples [begin, begin + count) to `sums`.
  void train(int64_t begin, int64_t count, Trained& sums) {
    Work work;
    work.number = 1;
    work.range = {0, begin, count};
    for (uint32_t stage = 0; stage < stages_; ++stage) take(stage, nodes_[stage].core->begin(work), sums);
    while (step(sums)) {
    }
    for (Node& node : nodes_) {
      BOOST_REQUIRE_MESSAGE(node.done, node.core->waits_for());
      BOOST_TEST(node.source->under_way() == 0u);
      sums.loss_sum += node.source->take_stats().loss_sum;
    }
  }

 private:
  struct Node {
    std::unique_ptr<StageCore> core;
    std::unique_ptr<nn::ModelStageSource> source;
    std::vector<uint32_t> part_of;
    std::deque<StageTask> tasks;
    bool done = false;
  };

  void take(uint32_t stage, StageCore::Effects effects, Trained& sums) {
    for (Envelope& envelope : effects.send) {
      const auto* fault = std::get_if<Fault>(&envelope.body);
      BOOST_REQUIRE_MESSAGE(!fault, (fault ? fault->what : ""));
      network_.push_back(std::move(envelope));
    }
    for (StageTask& task : effects.tasks) nodes_[stage].tasks.push_back(std::move(task));
    for (const StageCore::Gradient& complete : effects.gradients) {
      Tensor& sum = sums.gradients[complete.layer];
      if (!sum) sum = Tensor::zeros(complete.sum.shape());
      for (int64_t i = 0; i < sum.count(); ++i) sum.data<float>()[i] += complete.sum.data<float>()[i];
    }
    nodes_[stage].done = nodes_[stage].done || !effects.done.empty();
  }

  bool step(Trained& sums) {
    std::vector<uint32_t> busy;
    for (uint32_t stage = 0; stage < stages_; ++stage)
      if (!nodes_[stage].tasks.empty()) busy.push_back(stage);
    if (!network_.empty() && (busy.empty() || random_.chance(0.5))) {
      const size_t at = random_.below(network_.size());
      const Envelope envelope = std::move(network_[at]);
      network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(at));
      const uint32_t stage = envelope.to.index - first_worker_;
      take(stage, nodes_[stage].core->handle(envelope), sums);
      return true;
    }
    if (busy.empty()) return false;
    compute(busy[random_.below(busy.size())], sums);
    return true;
  }

  void compute(uint32_t stage, Trained& sums) {
    Node& node = nodes_[stage];
    StageTask task = std::move(node.tasks.front());
    node.tasks.pop_front();
    std::vector<uint32_t> samples(static_cast<size_t>(task.samples.count));
    std::iota(samples.begin(), samples.end(), static_cast<uint32_t>(task.samples.begin));
    const MicroBatch micro{task.micro_batch, node.part_of[task.chunk], samples, task.first_sample, 1};
    Tensor output;
    if (task.kind == ActionKind::forward)
      output = node.source->forward(micro, fixture_.weights, std::move(task.input));
    else if (task.kind == ActionKind::backward_input)
      output = node.source->backward_input(micro, fixture_.weights, std::move(task.input));
    else
      node.source->backward_weight(micro, fixture_.weights);
    for (const LayerId layer : task.gradients)
      take(stage, node.core->gradient(task.work.number, layer, node.source->take_gradient(layer)), sums);
    take(stage, node.core->computed(task, std::move(output)), sums);
  }

  const Fixture& fixture_;
  Random random_;
  uint32_t stages_, first_worker_;
  std::vector<Node> nodes_;
  std::vector<Envelope> network_;
};

// The largest difference, as a share of the layer's largest gradient.
double apart(const Trained& a, const Trained& b) {
  double most = std::abs(a.loss_sum - b.loss_sum) / std::abs(b.loss_sum);
  for (size_t layer = 0; layer < b.gradients.size(); ++layer) {
    double difference = 0, scale = 0;
    for (int64_t i = 0; i < b.gradients[layer].count(); ++i) {
      const double x = static_cast<double>(a.gradients[layer].data<float>()[i]);
      const double y = static_cast<double>(b.gradients[layer].data<float>()[i]);
      difference = std::max(difference, std::abs(x - y)), scale = std::max(scale, std::abs(y));
    }
    BOOST_REQUIRE(scale > 0);
    most = std::max(most, difference / scale);
  }
  return most;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryScheduleOfUpToSixStagesEightMicroBatchesAndTwoReplicasHasTheGradientsOfOneDevice) {
  const Fixture fixture;
  const Trained expected = fixture.on_one_device();
  uint64_t seed = 0;
  for (const std::string& name : schedule_names())
    for (uint32_t stages = 1; stages <= 6; ++stages)
      for (uint32_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
        ScheduleOptions options{.name = name, .stages = stages, .micro_batches = micro_batches};
        if (name == "interleaved" || name == "zb-v") options.chunks = 2;
        auto made = make_schedule(options);
        if (name.starts_with("pipedream") || (name == "interleaved" && micro_batches % stages != 0)) continue;
        BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
        const auto plan = plan_stages(*fixture.model, std::make_shared<const Schedule>(std::move(*made)));
        BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
        for (uint32_t replicas = 1; replicas <= 2; ++replicas) {
          Trained sums{std::vector<Tensor>(fixture.weights.size()), 0};
          int64_t begin = 0;
          for (uint32_t replica = 0; replica < replicas; ++replica) {
            const int64_t end = kSamples * (replica + 1) / replicas;
            Replica(fixture, *plan, replica, ++seed).train(begin, end - begin, sums);
            begin = end;
          }
          BOOST_TEST(apart(sums, expected) < 1e-5,
                     name << ", " << stages << " stages, " << micro_batches << " micro-batches, " << replicas);
        }
      }
}

BOOST_AUTO_TEST_SUITE_END()
