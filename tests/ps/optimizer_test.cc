#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include <troupe/kernels/base/random.h>
#include <troupe/ps/param/optimizer.h>

using namespace troupe;
using namespace troupe::ps;

BOOST_AUTO_TEST_SUITE(optimizer)

namespace {

using Vector = std::vector<float>;

// A slice of 40 weights (not a multiple of a vector register), 7 biases and 5 running statistics.
const std::vector<Segment> kSegments = {
    {0, 40, ParamKind::weight}, {40, 47, ParamKind::bias}, {47, 52, ParamKind::statistic}};
constexpr size_t kCount = 52;

Vector random_vector(Random& random, size_t n = kCount) {
  Vector values(n);
  for (float& x : values) x = static_cast<float>(random.normal());
  return values;
}

std::shared_ptr<const Optimizer> make(const OptimizerOptions& options) {
  auto made = make_optimizer(options);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return *made;
}

// What a shard does with one slice, over any number of steps.
struct Slice {
  explicit Slice(std::shared_ptr<const Optimizer> o, Vector first, std::vector<Segment> s = kSegments)
      : optimizer(std::move(o)), values(std::move(first)), segments(std::move(s)) {
    state.assign(optimizer->state_names().size(), Vector(values.size(), 0.f));
  }

  void step(const std::vector<Vector>& gradients, SliceUpdate u = {}, bool in_place = true) {
    std::vector<std::span<const float>> g(gradients.begin(), gradients.end());
    std::vector<std::span<float>> s(state.begin(), state.end());
    Vector other(values.size(), 77.f);
    u.in = values;
    u.out = in_place ? std::span<float>(values) : std::span<float>(other);
    u.gradients = g;
    u.state = s;
    u.segments = segments;
    u.schedule_step = u.updates = updates++;
    optimizer->apply(u);
    if (!in_place) values = other;
  }

  std::shared_ptr<const Optimizer> optimizer;
  Vector values;
  std::vector<Segment> segments;
  std::vector<Vector> state;
  int64_t updates = 0;
};

// The published formulas for one scalar parameter, in double precision, written out independently.
struct Scalar {
  double w = 0, a = 0, b = 0;  // parameter and two states
};
using Formula = std::function<void(Scalar&, double g, double decay, double t, const OptimizerOptions&)>;

void sgd(Scalar& p, double g, double decay, double, const OptimizerOptions& o) {
  g += decay * p.w;
  p.a = o.momentum * p.a + g;
  p.w -= o.learning_rate * (o.momentum == 0 ? g : o.nesterov ? g + o.momentum * p.a : p.a);
}
void adam(Scalar& p, double g, double decay, double t, const OptimizerOptions& o) {
  if (o.name == "adamw")
    p.w *= 1 - o.learning_rate * decay;
  else
    g += decay * p.w;
  p.a = o.beta1 * p.a + (1 - o.beta1) * g;
  p.b = o.beta2 * p.b + (1 - o.beta2) * g * g;
  const double m = p.a / (1 - std::pow(o.beta1, t)), v = p.b / (1 - std::pow(o.beta2, t));
  p.w -= o.learning_rate * m / (std::sqrt(v) + o.epsilon);
}
void adagrad(Scalar& p, double g, double decay, double, const OptimizerOptions& o) {
  g += decay * p.w;
  p.a += g * g;
  p.w -= o.learning_rate * g / (std::sqrt(p.a) + o.epsilon);
}
void rmsprop(Scalar& p, double g, double decay, double, const OptimizerOptions& o) {
  g += decay * p.w;
  p.a = o.alpha * p.a + (1 - o.alpha) * g * g;
  p.b = o.momentum * p.b + g / (std::sqrt(p.a) + o.epsilon);
  p.w -= o.learning_rate * p.b;
}

void check_close(const Vector& got, const std::vector<double>& expected) {
  for (size_t i = 0; i < got.size(); ++i)
    BOOST_TEST(std::abs(got[i] - expected[i]) <= 2e-5 * std::max(1.0, std::abs(expected[i])),
               "element " << i << ": " << got[i] << ", expected " << expected[i]);
}

void compare(const OptimizerOptions& options, const Formula& formula) {
  Random random(derive_seed(3, "optimizer"));
  Slice slice(make(options), random_vector(random));
  std::vector<Scalar> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) expected[i].w = slice.values[i];
  for (int t = 1; t <= 20; ++t) {
    const Vector g = random_vector(random);
    SliceUpdate u;
    u.gradient_scale = 0.25;
    slice.step({g}, u, t % 2 == 0);
    for (size_t i = 0; i < kCount; ++i) {
      const double mean = 0.25 * g[i];
      if (i >= 47)
        expected[i].w -= mean;
      else
        formula(expected[i], mean, i < 40 ? options.weight_decay : 0, t, options);
    }
  }
  std::vector<double> values;
  for (const auto& p : expected) values.push_back(p.w);
  check_close(slice.values, values);
}

OptimizerOptions named(const std::string& name, double rate) {
  OptimizerOptions options;
  options.name = name;
  options.learning_rate = rate;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(EveryOptimizerFollowsItsPublishedFormula) {
  struct Case {
    const char* name;
    double momentum;
    bool nesterov;
    double decay;
    Formula formula;
  };
  const Case cases[] = {{"sgd", 0, false, 0, sgd},         {"sgd", 0, false, 0.01, sgd},
                        {"sgd", 0.9, false, 0, sgd},       {"sgd", 0.9, true, 0.01, sgd},
                        {"adam", 0, false, 0, adam},       {"adam", 0, false, 0.1, adam},
                        {"adamw", 0, false, 0.1, adam},    {"adagrad", 0, false, 0.01, adagrad},
                        {"rmsprop", 0, false, 0, rmsprop}, {"rmsprop", 0.9, false, 0.01, rmsprop}};
  for (const auto& c : cases) {
    OptimizerOptions options = named(c.name, 0.02);
    options.momentum = c.momentum;
    options.nesterov = c.nesterov;
    options.weight_decay = c.decay;
    BOOST_TEST_CONTEXT(c.name << " momentum " << c.momentum << " decay " << c.decay) compare(options, c.formula);
  }
}

BOOST_AUTO_TEST_CASE(LambScalesEachTensorByItsTrustRatio) {
  Random random(5);
  OptimizerOptions options = named("lamb", 0.02);
  options.weight_decay = 0.01;
  const std::vector<Segment> segments = {{0, 5000, ParamKind::weight}, {5000, 5010, ParamKind::bias}};
  Slice slice(make(options), random_vector(random, 5010), segments);
  std::vector<double> w(slice.values.begin(), slice.values.end()), m(5010, 0), v(5010, 0), u(5010, 0);
  for (int t = 1; t <= 3; ++t) {
    const Vector g = random_vector(random, 5010);
    slice.step({g}, {}, t % 2 == 0);
    for (const auto& s : segments) {
      double ww = 0, uu = 0;
      for (auto i = static_cast<size_t>(s.begin); i < static_cast<size_t>(s.end); ++i) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        u[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
        if (s.kind == ParamKind::weight) u[i] += 0.01 * w[i];
        ww += w[i] * w[i];
        uu += u[i] * u[i];
      }
      for (auto i = static_cast<size_t>(s.begin); i < static_cast<size_t>(s.end); ++i)
        w[i] -= 0.02 * std::sqrt(ww) / std::sqrt(uu) * u[i];
    }
  }
  check_close(slice.values, w);
  BOOST_TEST(slice.optimizer->needs_whole_tensors());
}

BOOST_AUTO_TEST_CASE(LambMovesATensorThatIsZero) {
  OptimizerOptions options = named("lamb", 0.5);
  Slice slice(make(options), Vector(4, 0.f), {{0, 4, ParamKind::bias}});
  slice.step({Vector(4, 1.f)});
  BOOST_TEST(slice.values[0] == -0.5f);
}

BOOST_AUTO_TEST_CASE(GradientsAreSummedInTheOrderGiven) {
  Random random(11);
  constexpr size_t n = 5000;  // more than one block
  const Vector first = random_vector(random, n);
  for (size_t workers : {2u, 3u, 5u}) {
    std::vector<Vector> gradients;
    Vector sum(n, 0.f);
    for (size_t k = 0; k < workers; ++k) {
      gradients.push_back(random_vector(random, n));
      for (size_t i = 0; i < n; ++i) sum[i] += gradients[k][i];
    }
    Slice fused(make(named("sgd", 0.1)), first, {{0, n, ParamKind::weight}});
    Slice plain = fused;
    fused.step(gradients);
    plain.step({sum});
    BOOST_TEST((fused.values == plain.values), workers << " workers");
  }
}

BOOST_AUTO_TEST_CASE(ClippingScalesGradientsButNotStatistics) {
  Slice slice(make(named("sgd", 1)), Vector(kCount, 1.f));
  SliceUpdate u;
  u.gradient_scale = 0.5;
  u.clip_scale = 0.25;
  slice.step({Vector(kCount, 1.f)}, u);
  BOOST_TEST(slice.values[0] == 0.875f);
  BOOST_TEST(slice.values[47] == 0.5f);
}

BOOST_AUTO_TEST_CASE(TheRateScaleWeighsAPush) {
  Slice slice(make(named("sgd", 1)), Vector(kCount, 1.f));
  SliceUpdate u;
  u.rate_scale = 0.25;
  slice.step({Vector(kCount, 1.f)}, u);
  BOOST_TEST(slice.values[0] == 0.75f);
  BOOST_TEST(slice.values[47] == 0.75f);
}

BOOST_AUTO_TEST_CASE(SchedulesGiveTheRateOfEachStep) {
  struct Case {
    const char* schedule;
    int64_t step;
    double rate;
  };
  const Case cases[] = {{"constant", 0, 0.25}, {"constant", 3, 1},   {"constant", 500, 1}, {"step", 9, 1},
                        {"step", 10, 0.5},     {"step", 25, 0.25},   {"cosine", 0, 0.25},  {"cosine", 4, 1},
                        {"cosine", 54, 0.55},  {"cosine", 104, 0.1}, {"cosine", 900, 0.1}, {"linear", 3, 1},
                        {"linear", 54, 0.55},  {"linear", 104, 0.1}, {"linear", 900, 0.1}};
  for (const auto& c : cases) {
    OptimizerOptions options = named("sgd", 1);
    options.schedule = c.schedule;
    options.warmup_steps = 4;
    options.total_steps = 104;
    options.step_size = 10;
    options.gamma = 0.5;
    options.min_rate = 0.1;
    BOOST_TEST(std::abs(learning_rate(options, c.step) - c.rate) < 1e-12, c.schedule << " at " << c.step);
  }
}

BOOST_AUTO_TEST_CASE(SenselessOptionsAreErrorsThatNameTheKey) {
  struct Case {
    const char* key;
    std::function<void(OptimizerOptions&)> set;
  };
  const Case cases[] = {
      {"optimizer.name", [](auto& o) { o.name = "sdg"; }},
      {"optimizer.learning_rate", [](auto& o) { o.learning_rate = -1; }},
      {"optimizer.learning_rate", [](auto& o) { o.learning_rate = NAN; }},
      {"optimizer.momentum", [](auto& o) { o.momentum = 1; }},
      {"optimizer.nesterov", [](auto& o) { o.nesterov = true; }},
      {"optimizer.beta1", [](auto& o) { o.beta1 = 1; }},
      {"optimizer.beta2", [](auto& o) { o.beta2 = -0.1; }},
      {"optimizer.alpha", [](auto& o) { o.alpha = 1.5; }},
      {"optimizer.epsilon", [](auto& o) { o.epsilon = 0; }},
      {"optimizer.weight_decay", [](auto& o) { o.weight_decay = -1e-4; }},
      {"optimizer.schedule", [](auto& o) { o.schedule = "cosin"; }},
      {"optimizer.warmup_steps", [](auto& o) { o.warmup_steps = -1; }},
      {"optimizer.step_size", [](auto& o) { o.schedule = "step"; }},
      {"optimizer.total_steps", [](auto& o) { o.schedule = "linear"; }},
      {"optimizer.min_rate", [](auto& o) { o.schedule = "cosine", o.total_steps = 5, o.min_rate = 2; }},
  };
  for (const auto& c : cases) {
    OptimizerOptions options;
    c.set(options);
    const auto made = make_optimizer(options);
    BOOST_TEST(!made.has_value(), c.key);
    if (!made) BOOST_TEST(made.error().message.find(c.key) == 0u, made.error().message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
