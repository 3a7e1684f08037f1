#include <boost/test/unit_test.hpp>

#include <functional>

#include <tests/support/cuda/on_device.h>
#include <tests/support/whole_update.h>
#include <troupe/kernels/ops/cuda/cuda_ops.h>
#include <troupe/ps/param/optimizer.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const UpdateOps& op = cuda_update_ops();

using States = std::vector<Tensor>;
using StepOnDevice = std::function<void(Stream&, const Step&, int64_t updates, const Tensor& g, Tensor& w, States&)>;

// Three steps of a server's optimizer and of the device's, from the same numbers; the worst difference in words.
std::string unlike_server(const ps::OptimizerOptions& options, const StepOnDevice& step) {
  const auto optimizer = ps::make_optimizer(options).value();
  const Step common{options.learning_rate, 0.25, options.weight_decay};
  for (int64_t n : {0, 1, 3, 1027, 9001})
    for (Place place : kPlaces) {
      EmulatedStream stream(static_cast<uint64_t>(n) + 1);
      Tensor w = exact(1, {n}, DType::f32), device_w = on(stream, w, place);
      States state, device_state;
      std::vector<Tensor*> states;
      for (size_t i = 0; i < optimizer->state_names().size(); ++i) {
        state.push_back(Tensor::zeros({n}));
        device_state.push_back(on(stream, state.back(), place));
      }
      for (Tensor& s : state) states.push_back(&s);
      for (int64_t updates = 0; updates < 3; ++updates) {
        const Tensor g = exact(10 + static_cast<uint64_t>(updates), {n}, DType::f32);
        apply_whole(*optimizer, common.gradient_scale, updates, g, w, states);
        step(stream, common, updates, on(stream, g, place), device_w, device_state);
      }
      const std::string gap = difference(device_w, w, 1e-6);
      if (!gap.empty()) return cat(n, " parameters: ", gap);
      for (size_t i = 0; i < state.size(); ++i) {
        const std::string state_gap = difference(device_state[i], state[i], 1e-6);
        if (!state_gap.empty()) return cat(n, " of ", optimizer->state_names()[i], ": ", state_gap);
      }
    }
  return "";
}

ps::OptimizerOptions named(const std::string& name) {
  ps::OptimizerOptions options;
  options.name = name;
  options.weight_decay = 0.1;
  return options;
}

AdamStep adam_step(const Step& common, int64_t updates, const ps::OptimizerOptions& o, bool decoupled) {
  return {common, o.beta1, o.beta2, o.epsilon, updates, decoupled};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(update)

BOOST_AUTO_TEST_CASE(SgdIsTheServers) {
  BOOST_TEST(unlike_server(named("sgd"), [](Stream& stream, const Step& s, int64_t, const Tensor& g, Tensor& w,
                                            States&) { op.sgd(stream, s, g, w); }) == "");
}

BOOST_AUTO_TEST_CASE(MomentumIsTheServersWithAndWithoutNesterov) {
  for (bool nesterov : {false, true}) {
    ps::OptimizerOptions options = named("sgd");
    options.momentum = 0.9;
    options.nesterov = nesterov;
    BOOST_TEST(
        unlike_server(options, [&](Stream& stream, const Step& s, int64_t, const Tensor& g, Tensor& w, States& state) {
          op.momentum(stream, {s, 0.9, nesterov}, g, w, state[0]);
        }) == "");
  }
}

BOOST_AUTO_TEST_CASE(AdamAndAdamWAreTheServers) {
  for (const char* name : {"adam", "adamw"}) {
    const ps::OptimizerOptions options = named(name);
    BOOST_TEST(unlike_server(options, [&](Stream& stream, const Step& s, int64_t updates, const Tensor& g, Tensor& w,
                                          States& state) {
                 op.adam(stream, adam_step(s, updates, options, options.name == "adamw"), g, w, state[0], state[1]);
               }) == "");
  }
}

BOOST_AUTO_TEST_CASE(AdagradIsTheServers) {
  BOOST_TEST(unlike_server(named("adagrad"),
                           [](Stream& stream, const Step& s, int64_t, const Tensor& g, Tensor& w, States& state) {
                             op.adagrad(stream, {s, 1e-8}, g, w, state[0]);
                           }) == "");
}

BOOST_AUTO_TEST_CASE(RmspropIsTheServersWithAndWithoutMomentum) {
  for (double momentum : {0.0, 0.9}) {
    ps::OptimizerOptions options = named("rmsprop");
    options.momentum = momentum;
    BOOST_TEST(
        unlike_server(options, [&](Stream& stream, const Step& s, int64_t, const Tensor& g, Tensor& w, States& state) {
          Tensor none;
          op.rmsprop(stream, {s, options.alpha, options.epsilon, momentum}, g, w, state[0],
                     momentum > 0 ? state[1] : none);
        }) == "");
  }
}

BOOST_AUTO_TEST_CASE(LambIsTheServers) {
  const ps::OptimizerOptions options = named("lamb");
  BOOST_TEST(unlike_server(options, [&](Stream& stream, const Step& s, int64_t updates, const Tensor& g, Tensor& w,
                                        States& state) {
               op.lamb(stream, adam_step(s, updates, options, false), g, w, state[0], state[1]);
             }) == "");
}

BOOST_AUTO_TEST_CASE(LambStepsByTheRateWhereANormIsZero) {
  EmulatedStream stream(1);
  Tensor w = on(stream, Tensor::zeros({5})), m = on(stream, w), v = on(stream, w);
  const Tensor g = on(stream, exact(1, {5}, DType::f32));
  op.lamb(stream, {{0.5, 1, 0}, 0.9, 0.999, 1e-8, 0, false}, g, w, m, v);
  for (int i = 0; i < 5; ++i) BOOST_TEST(std::abs(std::abs(at(w, i)) - 0.5) < 1e-5);
}

BOOST_AUTO_TEST_CASE(OneStepIsOneKernel) {
  EmulatedStream stream(1);
  Tensor w = on(stream, Tensor::zeros({500})), m = on(stream, w), v = on(stream, w);
  op.adam(stream, {{0.5, 1, 0}}, on(stream, w), w, m, v);
  BOOST_TEST(stream.launches().size() == 1u);
}

BOOST_AUTO_TEST_CASE(StateOfAnotherSizeFailsWithItsValues) {
  EmulatedStream stream(1);
  Tensor w = empty_on(stream, {4}, DType::f32), sum = empty_on(stream, {3}, DType::f32);
  BOOST_TEST(failure_without("an optimizer's state is [3], expected as many elements as [4]",
                             [&] { op.adagrad(stream, {}, w, w, sum); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
