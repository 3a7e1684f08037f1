#include <boost/test/unit_test.hpp>
#include <cmath>

#include <troupe/ps/param/optimizer.h>

#include <tests/support/fixture.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::FixtureCase;

BOOST_AUTO_TEST_SUITE(optimizer_pytorch)

namespace {

OptimizerOptions options_of(const FixtureCase& c) {
  OptimizerOptions options;
  options.name = c.setting("name");
  const auto read = [&](const char* key, double& value) {
    if (c.settings.count(key)) value = c.number(key);
  };
  read("learning_rate", options.learning_rate);
  read("momentum", options.momentum);
  read("beta1", options.beta1);
  read("beta2", options.beta2);
  read("epsilon", options.epsilon);
  read("alpha", options.alpha);
  read("weight_decay", options.weight_decay);
  options.nesterov = c.settings.count("nesterov") && c.number("nesterov") != 0;
  return options;
}

std::vector<float> floats(const Tensor& doubles) {
  return {doubles.span<double>().begin(), doubles.span<double>().end()};
}

}  // namespace

// The recorded values are PyTorch's in double precision; ours are single: 1e-6 of what moves.
BOOST_AUTO_TEST_CASE(EveryStepIsPyTorchs) {
  const auto cases = test::load_fixture("pytorch/optimizers.txt");
  BOOST_TEST(cases.size() >= 14u);
  for (const auto& [name, c] : cases) {
    const auto optimizer = make_optimizer(options_of(c)).value();
    std::vector<float> values = floats(c.tensor("params0"));
    std::vector<std::vector<float>> state(optimizer->state_names().size(), std::vector<float>(values.size(), 0.f));
    const Segment segment{0, static_cast<int64_t>(values.size()), ParamKind::weight};
    for (int t = 1; t <= static_cast<int>(c.number("steps")); ++t) {
      const std::vector<float> gradient = floats(c.tensor("gradient" + std::to_string(t)));
      const std::span<const float> gradients[] = {gradient};
      std::vector<std::span<float>> states(state.begin(), state.end());
      SliceUpdate u{values, values, gradients};
      u.state = states;
      u.segments = {&segment, 1};
      u.schedule_step = u.updates = t - 1;
      optimizer->apply(u);
      const auto expected = c.tensor("params" + std::to_string(t)).span<double>();
      for (size_t i = 0; i < values.size(); ++i)
        BOOST_TEST(std::abs(values[i] - expected[i]) <= 2e-6 * std::max(1.0, std::abs(expected[i])),
                   name << " step " << t << " element " << i << ": " << values[i] << ", PyTorch " << expected[i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
