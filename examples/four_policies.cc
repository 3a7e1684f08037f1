// One model whose four layers are kept in step in four ways, with one worker that is slow.
//
//   build/examples/four_policies
//
// It prints a table, a row a layer. Under all_reduce and sync no read is stale, and all workers wait for the slow
// one; under ssp reads are at most two steps behind it. Async has no bound of its own: it is the exact layers of the
// same model that make the others wait. The second table is of a model that is asynchronous throughout: there the
// fast workers run on, take more of the samples, and read weights that lack many of the slow one's steps.
#include <chrono>
#include <cstdio>

#include <troupe/actors/run.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/metrics/summarize.h>

using namespace troupe;
using Clock = std::chrono::steady_clock;

namespace {

constexpr ps::Policy kAllReduce{ps::Mode::all_reduce}, kSync{ps::Mode::sync}, kSsp{ps::Mode::ssp, 2},
    kAsync{ps::Mode::async};

/// Ten clouds of points in 32 dimensions, to be told apart.
Result<ps::DataSets> make_data() {
  ps::DataOptions options;
  options.format = "synthetic";
  options.noise = 2;
  return ps::load_dataset(options);
}

Result<ps::RunResult> train(const ps::DataSets& data, std::vector<ps::Policy> policies) {
  auto made = nn::make_model({.kind = "mlp", .input = {32}, .classes = 10, .hidden = {128, 64, 32}});
  if (!made) return tl::unexpected<Error>(made.error());
  const auto model = std::make_shared<const nn::Model>(std::move(*made));
  auto optimizer = ps::make_optimizer({.name = "sgd", .learning_rate = 0.05, .momentum = 0.9});
  if (!optimizer) return tl::unexpected<Error>(optimizer.error());

  ClusterParts parts;
  parts.coordinator.layers = model->layers();
  parts.coordinator.policies = std::move(policies);
  parts.coordinator.layout.servers = 2;
  parts.coordinator.dealer = {
      .train_samples = data.train->size(), .epochs = 4, .global_batch = 64, .worker_batch = {16, 16, 16, 16}};
  parts.coordinator.test_samples = data.test->size();
  parts.source = [&](ps::WorkerId) { return std::make_unique<nn::ModelSource>(model, data.train, data.test); };
  parts.optimizer = *optimizer;
  parts.initial = initial_from(parts.source(0), *parts.optimizer, parts.seed);
  parts.slow_down = [](ps::WorkerId worker) {
    return worker == 3 ? SlowDown{1, std::chrono::milliseconds(3)} : SlowDown{};
  };
  auto run = Run::start(std::move(parts));
  if (!run) return tl::unexpected<Error>(run.error());
  return (*run)->wait();
}

int story(const ps::DataSets& data, const char* title, std::vector<ps::Policy> policies) {
  const auto begin = Clock::now();
  const auto result = train(data, std::move(policies));
  if (!result) return std::fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%s\n\n%s\n", title, ps::summary_text(ps::summarize(*result, seconds)).c_str());
  return result->outcome == ps::Outcome::completed ? 0 : 1;
}

}  // namespace

int main() {
  const auto data = make_data();
  if (!data) return std::fprintf(stderr, "%s\n", data.error().message.c_str()), 1;
  if (story(*data, "Four policies in one model", {kAllReduce, kSync, kSsp, kAsync}) != 0) return 1;
  return story(*data, "Asynchronous throughout", {kAsync, kAsync, kAsync, kAsync});
}
