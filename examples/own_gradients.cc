// Gradients of one's own inside an actor system of one's own. The program has actors already; here one that reports
// how training goes. It adds a Troupe cluster to its actor system, and brings what the workers compute: matrix
// factorisation, which finds for 50 users and 40 films vectors of which each product is a rating.
//
//   build/examples/own_gradients
//
// It prints the error on the ratings now and then, and at last the root mean square error, below 0.1.
#include <cmath>
#include <cstdio>

#include <troupe/actors/cluster.h>
#include <troupe/kernels/base/random.h>

using namespace troupe;

constexpr int64_t kUsers = 50, kFilms = 40, kWidth = 4;

// The truth, which training has to find: ratings made of hidden vectors.
double rating(int64_t user, int64_t film) {
  Random of_user(derive_seed(1, "user", static_cast<uint64_t>(user)));
  Random of_film(derive_seed(1, "film", static_cast<uint64_t>(film)));
  return of_user.normal() * of_film.normal() + of_user.normal() * of_film.normal();
}

// What a worker computes. Sample s is one user's rating of one film; each table of vectors is a layer.
class Factorisation : public GradientSource {
 public:
  const std::vector<LayerSpec>& layers() const override { return layers_; }

  void initialize(size_t layer, uint64_t seed, std::span<float> values) override {
    Random random(derive_seed(seed, "factors", layer));
    for (float& value : values) value = static_cast<float>(0.5 * random.normal());
  }

  StepStats backward(const Batch& batch, std::span<const Tensor> weights, const GradientReady& ready) override {
    Tensor users = Tensor::zeros({kUsers * kWidth}), films = Tensor::zeros({kFilms * kWidth});
    const StepStats stats = each(batch.samples, weights, [&](int64_t user, int64_t film, float error) {
      for (int64_t i = 0; i < kWidth; ++i) {
        users.data<float>()[user + i] += error * weights[1].data<float>()[film + i];
        films.data<float>()[film + i] += error * weights[0].data<float>()[user + i];
      }
    });
    ready(1, films);
    ready(0, users);
    return stats;
  }

  StepStats evaluate(std::span<const uint32_t> samples, std::span<const Tensor> weights) override {
    return each(samples, weights, [](int64_t, int64_t, float) {});
  }
  int64_t train_samples() const override { return kUsers * kFilms; }
  int64_t test_samples() const override { return kUsers * kFilms; }

 private:
  // Calls use(offset of the user's vector, offset of the film's, prediction - rating) for each sample.
  template <class Use>
  StepStats each(std::span<const uint32_t> samples, std::span<const Tensor> weights, Use use) {
    StepStats stats;
    for (const uint32_t sample : samples) {
      const int64_t user = sample % kUsers, film = sample / kUsers;
      double prediction = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        prediction += weights[0].data<float>()[user * kWidth + i] * weights[1].data<float>()[film * kWidth + i];
      const double error = prediction - rating(user, film);
      use(user * kWidth, film * kWidth, static_cast<float>(error));
      stats.loss_sum += error * error;
      ++stats.samples;
    }
    return stats;
  }

  std::vector<LayerSpec> layers_{{"users", kUsers * kWidth, {{"users.vectors", {kUsers, kWidth}, 0}}},
                                 {"films", kFilms * kWidth, {{"films.vectors", {kFilms, kWidth}, 0}}}};
};

// The program's own actor.
caf::behavior reporter(caf::event_based_actor* self) {
  return {[self](int64_t step, double error) {
    caf::aout(self) << "step " << step << ": mean square error " << error << std::endl;
  }};
}

// Passes on to it what the coordinator says.
class Forwarder : public RunObserver {
 public:
  explicit Forwarder(caf::actor to) : to_(std::move(to)) {}
  void on_step(const ps::StepReport& report) override {
    if (report.step % 200 == 0)
      caf::anon_send(to_, report.step, report.stats.loss_sum / static_cast<double>(report.stats.samples));
  }

 private:
  caf::actor to_;
};

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const caf::actor mine = system.spawn(reporter);

  ClusterParts parts;
  parts.coordinator.layers = Factorisation().layers();
  parts.coordinator.policies = {{ps::Mode::async}, {ps::Mode::async}};
  parts.coordinator.dealer = {
      .train_samples = kUsers * kFilms, .epochs = 30, .global_batch = 50, .worker_batch = {25, 25}};
  parts.coordinator.test_samples = kUsers * kFilms;
  parts.source = [](ps::WorkerId) { return std::make_unique<Factorisation>(); };
  parts.optimizer = *ps::make_optimizer({.name = "adam", .learning_rate = 0.02});
  parts.initial = initial_from(std::make_shared<Factorisation>(), *parts.optimizer, 1);
  parts.observer = std::make_shared<Forwarder>(mine);

  auto cluster = Cluster::start(system, std::move(parts));
  const StepStats stats = cluster ? (*cluster)->wait().evaluation.stats : StepStats{};
  caf::anon_send_exit(mine, caf::exit_reason::user_shutdown);
  if (!cluster) return std::fprintf(stderr, "%s\n", cluster.error().message.c_str()), 1;
  const double error = std::sqrt(stats.loss_sum / static_cast<double>(stats.samples));
  std::printf("root mean square error %.3f\n", error);
  return error < 0.1 ? 0 : 1;
}
