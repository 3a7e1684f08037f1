// Fashion-MNIST with a small fully connected network, from a program of one's own: load the data, build the model,
// describe the cluster, run it.
//
//   build/examples/fashion_mnist_mlp
//
// Two workers train on the first 6,000 images for two epochs, in a second or two. It prints the test accuracy after
// each epoch, about 0.76 and then 0.78. The images are Debian's package dataset-fashion-mnist.
#include <cstdio>

#include <troupe/actors/run.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/data/load_dataset.h>

using namespace troupe;

namespace {

class Printer : public RunObserver {
 public:
  void on_evaluation(const ps::EvaluationReport& report) override {
    std::printf("epoch %d: test accuracy %.3f\n", static_cast<int>(report.epoch), accuracy(report.stats));
  }
  static double accuracy(const StepStats& stats) {
    return static_cast<double>(stats.correct) / static_cast<double>(stats.samples);
  }
};

int give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main() {
  // The data, scaled to mean 0 and deviation 1.
  ps::DataOptions data;
  data.path = "/usr/share/datasets/fashion-mnist";
  data.mean = {0.2860};
  data.std = {0.3530};
  data.train_limit = 6000;
  const auto sets = ps::load_dataset(data);
  if (!sets) {
    std::fprintf(stderr, "Fashion-MNIST is not here: apt install dataset-fashion-mnist\n");
    return give_up(sets.error());
  }

  // The model: 784 - 128 - 10.
  nn::ModelSpec spec;
  spec.kind = "mlp";
  spec.input = sets->train->sample_shape();
  spec.classes = sets->train->classes();
  spec.hidden = {128};
  auto made = nn::make_model(spec);
  if (!made) return give_up(made.error());
  const auto model = std::make_shared<const nn::Model>(std::move(*made));

  // How it is trained: each of two workers takes half of a batch of 64.
  auto optimizer = ps::make_optimizer({.name = "sgd", .learning_rate = 0.05, .momentum = 0.9});
  if (!optimizer) return give_up(optimizer.error());
  ClusterParts parts;
  parts.optimizer = *optimizer;
  parts.source = [&](ps::WorkerId) { return std::make_unique<nn::ModelSource>(model, sets->train, sets->test); };
  parts.initial = initial_from(parts.source(0), *parts.optimizer, parts.seed);
  parts.observer = std::make_shared<Printer>();

  // What the coordinator has to know. fc1 is exact; the workers go on with an fc2 at most two steps old.
  ps::CoordinatorOptions& run_options = parts.coordinator;
  run_options.layers = model->layers();
  run_options.policies = {{ps::Mode::sync}, {ps::Mode::ssp, 2}};
  run_options.layout.servers = 2;
  run_options.dealer = {
      .train_samples = sets->train->size(), .epochs = 2, .global_batch = 64, .worker_batch = {32, 32}};
  run_options.test_samples = sets->test->size();
  run_options.evaluate_every_epochs = 1;

  auto run = Run::start(std::move(parts));
  if (!run) return give_up(run.error());
  const ps::RunResult& result = (*run)->wait();
  if (result.outcome != ps::Outcome::completed) return give_up({ErrorKind::failed, result.failure});
  std::printf("trained on %d samples\n", static_cast<int>(result.samples));
  return Printer::accuracy(result.evaluation.stats) > 0.7 ? 0 : 1;
}
