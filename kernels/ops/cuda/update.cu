#include <cmath>

#include <troupe/kernels/ops/cuda/cuda_ops.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/update.cuh>

namespace troupe::ops {
namespace cuda {
namespace {

float f(double x) { return static_cast<float>(x); }

void expect_f32(const Tensor& g, const Tensor& w, std::initializer_list<const Tensor*> state) {
  expect(g, DType::f32, g.shape(), "g");
  expect(w, DType::f32, w.shape(), "w");
  expect_like(g, w, "g");
  for (const Tensor* s : state) {
    expect(*s, DType::f32, s->shape(), "an optimizer's state");
    expect_like(*s, w, "an optimizer's state");
  }
}

template <int kStates, int kWritten = kStates, class Rule>
void step(Stream& stream, Rule rule, int64_t n, const float* g, float* w, float* a = nullptr, float* b = nullptr) {
  if (n == 0) return;
  constexpr int kWide = kWidest<float>;
  if (aligned(kWide, g, w, a, b))
    TROUPE_LAUNCH((step_elements<kWide, kStates, kWritten, Rule>), blocks_for(n, kBlockThreads * kWide), kBlockThreads,
                  0, stream, n, rule, g, w, a, b);
  else
    TROUPE_LAUNCH((step_elements<1, kStates, kWritten, Rule>), blocks_for(n), kBlockThreads, 0, stream, n, rule, g, w,
                  a, b);
}

void sgd(Stream& stream, const Step& s, const Tensor& g, Tensor& w) {
  expect_f32(g, w, {});
  step<0>(stream, SgdRule{f(s.rate), f(s.gradient_scale), f(s.weight_decay)}, w.count(), g.data<float>(),
          w.data<float>());
}

void momentum(Stream& stream, const MomentumStep& s, const Tensor& g, Tensor& w, Tensor& buffer) {
  expect_f32(g, w, {&buffer});
  const MomentumRule rule{f(s.rate),     f(s.gradient_scale),      f(s.weight_decay),
                          f(s.momentum), s.nesterov ? 1.0f : 0.0f, s.nesterov ? f(s.momentum) : 1.0f};
  step<1>(stream, rule, w.count(), g.data<float>(), w.data<float>(), buffer.data<float>());
}

void adam(Stream& stream, const AdamStep& s, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
  expect_f32(g, w, {&m, &v});
  const double t = static_cast<double>(s.updates + 1);
  AdamRule rule{};
  rule.step = f(s.rate / (1 - std::pow(s.beta1, t)));
  rule.scale = f(s.gradient_scale);
  rule.l2 = s.decoupled ? 0 : f(s.weight_decay);
  rule.keep = s.decoupled ? f(1 - s.rate * s.weight_decay) : 1;
  rule.b1 = f(s.beta1), rule.a1 = f(1 - s.beta1);
  rule.b2 = f(s.beta2), rule.a2 = f(1 - s.beta2);
  rule.correction = f(1 / std::sqrt(1 - std::pow(s.beta2, t)));
  rule.epsilon = f(s.epsilon);
  step<2>(stream, rule, w.count(), g.data<float>(), w.data<float>(), m.data<float>(), v.data<float>());
}

void adagrad(Stream& stream, const AdagradStep& s, const Tensor& g, Tensor& w, Tensor& sum) {
  expect_f32(g, w, {&sum});
  const AdagradRule rule{f(s.rate), f(s.gradient_scale), f(s.weight_decay), f(s.epsilon)};
  step<1>(stream, rule, w.count(), g.data<float>(), w.data<float>(), sum.data<float>());
}

template <bool kMomentum>
RmspropRule<kMomentum> rule_of(const RmspropStep& s) {
  return {f(s.rate), f(s.gradient_scale), f(s.weight_decay), f(s.alpha), f(1 - s.alpha), f(s.epsilon), f(s.momentum)};
}

void rmsprop(Stream& stream, const RmspropStep& s, const Tensor& g, Tensor& w, Tensor& average, Tensor& buffer) {
  expect_f32(g, w, {&average});
  TROUPE_CHECK((s.momentum > 0) == static_cast<bool>(buffer), "momentum ", s.momentum, " with a buffer of ",
               buffer ? buffer.shape() : Shape{0});
  if (!buffer)
    return step<1>(stream, rule_of<false>(s), w.count(), g.data<float>(), w.data<float>(), average.data<float>());
  expect_f32(g, w, {&buffer});
  step<2>(stream, rule_of<true>(s), w.count(), g.data<float>(), w.data<float>(), average.data<float>(),
          buffer.data<float>());
}

void lamb(Stream& stream, const AdamStep& s, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
  expect_f32(g, w, {&m, &v});
  const int64_t n = w.count();
  if (n == 0) return;
  const double t = static_cast<double>(s.updates + 1);
  LambRule rule{};
  rule.scale = f(s.gradient_scale);
  rule.decay = f(s.weight_decay);
  rule.b1 = f(s.beta1), rule.a1 = f(1 - s.beta1);
  rule.b2 = f(s.beta2), rule.a2 = f(1 - s.beta2);
  rule.correction1 = f(1 / (1 - std::pow(s.beta1, t)));
  rule.correction2 = f(1 / (1 - std::pow(s.beta2, t)));
  rule.epsilon = f(s.epsilon);

  const unsigned blocks = reduce_blocks<float>(n);
  auto* partial = reinterpret_cast<Sums<double, 2>*>(stream.scratch((blocks + 1) * sizeof(Sums<double, 2>)));
  auto* length = reinterpret_cast<float*>(partial + blocks);
  TROUPE_LAUNCH(lamb_moments, blocks, kBlockThreads, 0, stream, n, rule, g.data<float>(), w.data<float>(),
                m.data<float>(), v.data<float>(), partial);
  TROUPE_LAUNCH(lamb_step, 1, kBlockThreads, 0, stream, int64_t{blocks}, s.rate, partial, length);
  step<2, 0>(stream, LambMove{rule, length}, n, g.data<float>(), w.data<float>(), m.data<float>(), v.data<float>());
}

}  // namespace
}  // namespace cuda

const UpdateOps& cuda_update_ops() {
  static const UpdateOps ops{cuda::sgd, cuda::momentum, cuda::adam, cuda::adagrad, cuda::rmsprop, cuda::lamb};
  return ops;
}

}  // namespace troupe::ops
