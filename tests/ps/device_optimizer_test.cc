#include <boost/test/unit_test.hpp>

#include <cmath>

#include <tests/support/late_updates.h>
#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/device_optimizer.h>

using namespace troupe;

namespace {

constexpr int64_t kCount = 700;

LayerSpec layer() {
  return {"bn1",
          kCount,
          {{"bn1.weight", {20, 30}, 0},
           {"bn1.bias", {40}, 600, ParamKind::bias},
           {"bn1.mean", {60}, 640, ParamKind::statistic}}};
}

Tensor drawn(uint64_t seed) {
  Random random(seed);
  Tensor t = Tensor::empty({kCount});
  for (float& x : t.span<float>()) x = static_cast<float>(random.normal());
  return t;
}

struct Held {
  Tensor values;
  std::vector<Tensor> state;
};

Held begin(const ps::Optimizer& optimizer) {
  Held held{drawn(1), {}};
  for (size_t i = 0; i < optimizer.state_names().size(); ++i) held.state.push_back(Tensor::zeros({kCount}));
  return held;
}

void step_on_cpu(const ps::Optimizer& optimizer, int64_t step, Held& held) {
  const Tensor gradient = drawn(10 + static_cast<uint64_t>(step));
  const std::span<const float> g = gradient.span<float>();
  const std::vector<ps::Segment> segments = {
      {0, 600, ParamKind::weight}, {600, 640, ParamKind::bias}, {640, kCount, ParamKind::statistic}};
  std::vector<std::span<float>> state;
  for (Tensor& s : held.state) state.push_back(s.span<float>());
  ps::SliceUpdate update;
  update.in = update.out = held.values.span<float>();
  update.gradients = {&g, 1};
  update.gradient_scale = 0.25;
  update.clip_scale = 0.5;
  update.state = state;
  update.segments = segments;
  update.schedule_step = update.updates = step;
  optimizer.apply(update);
}

void step_on_device(const ps::DeviceOptimizer& optimizer, int64_t step, Held& held) {
  Stream stream;
  const Tensor gradient = drawn(10 + static_cast<uint64_t>(step));
  optimizer.apply(stream, ps::segments_of(layer(), 0, kCount),
                  {gradient, held.values, held.state, 0.25, 0.5, step, step});
}

/// The largest difference after some steps, in words; empty where there is none.
std::string unlike_servers(const ps::OptimizerOptions& options) {
  const auto optimizer = ps::make_optimizer(options).value();
  const ps::DeviceOptimizer device(options, test::cpu_update_ops());
  Held expected = begin(*optimizer), got = begin(*optimizer);
  for (int64_t step = 0; step < 4; ++step) {
    step_on_cpu(*optimizer, step, expected);
    step_on_device(device, step, got);
  }
  expected.state.push_back(expected.values);
  got.state.push_back(got.values);
  for (size_t i = 0; i < got.state.size(); ++i)
    for (int64_t k = 0; k < kCount; ++k) {
      const float a = std::as_const(got.state[i]).data<float>()[k],
                  b = std::as_const(expected.state[i]).data<float>()[k];
      if (a != b) return cat(options.name, ": element ", k, " of tensor ", i, " is ", a, ", the servers' ", b);
    }
  return "";
}

ps::OptimizerOptions named(const char* name, double momentum = 0) {
  ps::OptimizerOptions options;
  options.name = name;
  options.momentum = momentum;
  options.weight_decay = 0.1;
  options.schedule = "linear";
  options.warmup_steps = 2;
  options.total_steps = 10;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device_optimizer)

// Weights, biases and statistics of one layer, a rate that changes from step to step, a gradient that is clipped.
BOOST_AUTO_TEST_CASE(EveryOptimizerIsTheServersOnWholeLayers) {
  for (const char* name : {"sgd", "adam", "adamw", "adagrad", "rmsprop", "lamb"})
    BOOST_TEST(unlike_servers(named(name)) == "");
}

BOOST_AUTO_TEST_CASE(MomentumIsTheServersWithAndWithoutNesterov) {
  ps::OptimizerOptions options = named("sgd", 0.9);
  BOOST_TEST(unlike_servers(options) == "");
  options.nesterov = true;
  BOOST_TEST(unlike_servers(options) == "");
  BOOST_TEST(unlike_servers(named("rmsprop", 0.9)) == "");
}

BOOST_AUTO_TEST_SUITE_END()
