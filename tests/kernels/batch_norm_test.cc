#include <boost/test/unit_test.hpp>

#include <tests/support/norms.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
const Shape kShapes[] = {{67, 5}, {3, 4, 5, 7}, {2, 3, 1, 1}, {2, 2, 33}};

struct Normed {
  Tensor y, mean, variance;
};

Normed normed(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  Stream stream;
  const Shape channels{x.shape()[1]};
  Normed out{unwritten(x.shape(), x.dtype()), unwritten(channels, x.dtype()), unwritten(channels, x.dtype())};
  op.batch_norm(stream, x, gamma, beta, kEpsilon, out.y, out.mean, out.variance);
  return out;
}

NormGradients gradients(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy) {
  Stream stream;
  const Normed n = normed(x, gamma, beta);
  NormGradients g(x, gamma);
  op.batch_norm_gradient(stream, x, gamma, n.mean, n.variance, kEpsilon, dy, Write::set, g.dx, g.dgamma,
                         g.dbeta);
  return g;
}

int64_t channel(const Shape& shape, int64_t i) {
  return i / (shape.count() / (shape[0] * shape[1])) % shape[1];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batch_norm)

BOOST_AUTO_TEST_CASE(ChannelsComeToMeanZeroAndVarianceOneThenAreScaledAndShifted) {
  for (const Shape& shape : kShapes)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Shape channels{shape[1]};
      const Tensor x = exact(1, shape), gamma = exact(2, channels), beta = exact(3, channels);
      Tensor mean = Tensor::zeros(channels, DType::f64), variance = mean.clone(), y = x.clone();
      const double n = static_cast<double>(shape.count() / shape[1]);
      for (int64_t i = 0; i < x.count(); ++i) mean.data<double>()[channel(shape, i)] += at(x, i) / n;
      for (int64_t i = 0; i < x.count(); ++i)
        variance.data<double>()[channel(shape, i)] += std::pow(at(x, i) - at(mean, channel(shape, i)), 2) / n;
      for (int64_t i = 0; i < x.count(); ++i) {
        const int64_t c = channel(shape, i);
        y.data<double>()[i] =
            (at(x, i) - at(mean, c)) / std::sqrt(at(variance, c) + kEpsilon) * at(gamma, c) + at(beta, c);
      }
      const Normed out = normed(as(dtype, x), as(dtype, gamma), as(dtype, beta));
      BOOST_TEST(difference(out.y, y, 2e-6) == "", shape);
      BOOST_TEST(difference(out.mean, mean, 1e-6) == "", shape);
      BOOST_TEST(difference(out.variance, variance, 1e-6) == "", shape);
    }
}

BOOST_AUTO_TEST_CASE(InferenceUsesTheGivenStatistics) {
  Stream stream;
  for (const Shape& shape : kShapes) {
    const Shape channels{shape[1]};
    const Tensor x = exact(1, shape, DType::f32), gamma = exact(2, channels, DType::f32),
                 beta = exact(3, channels, DType::f32);
    const Normed trained = normed(x, gamma, beta);
    Tensor y = x.clone();
    op.batch_norm_inference(stream, y, gamma, beta, trained.mean, trained.variance, kEpsilon, y);
    BOOST_TEST(same_bits(y, trained.y), shape);
  }
}

BOOST_AUTO_TEST_CASE(GradientsAgreeWithFiniteDifferences) {
  for (const Shape& shape : {Shape{7, 3}, Shape{2, 3, 2, 3}}) check_finite_differences(shape, 3, normed, gradients);
}

BOOST_AUTO_TEST_CASE(FloatGradientsAgreeWithDouble) {
  for (const Shape& shape : {kShapes[0], kShapes[1], kShapes[3]})
    check_float_against_double(shape, shape[1], gradients);
}

BOOST_AUTO_TEST_CASE(DxMayReplaceDyAndDoesNotDependOnWhatGradientsAreAddedTo) {
  Stream stream;
  const Tensor x = exact(1, {3, 4, 5, 7}, DType::f32), gamma = exact(2, {4}, DType::f32),
               dy = exact(3, {3, 4, 5, 7}, DType::f32);
  const Normed n = normed(x, gamma, gamma);
  const NormGradients once = gradients(x, gamma, gamma, dy);
  Tensor dx = dy.clone();
  check_added(once, [&](Tensor& dgamma, Tensor& dbeta) {
    op.batch_norm_gradient(stream, x, gamma, n.mean, n.variance, kEpsilon, dx, Write::add, dx, dgamma, dbeta);
  });
  BOOST_TEST(same_bits(dx, once.dx));
}

BOOST_AUTO_TEST_CASE(AnEmptyBatchHasMeanZeroVarianceOneAndNoGradient) {
  const Tensor none = Tensor::empty({0, 3, 2, 2}), ones = exact(1, {3}, DType::f32);
  const Normed out = normed(none, ones, ones);
  const NormGradients g = gradients(none, ones, ones, none);
  for (int64_t c = 0; c < 3; ++c) {
    BOOST_TEST(at(out.mean, c) == 0);
    BOOST_TEST(at(out.variance, c) == 1);
    BOOST_TEST(at(g.dgamma, c) == 0);
    BOOST_TEST(at(g.dbeta, c) == 0);
  }
}

BOOST_AUTO_TEST_CASE(SizesThatDoNotFitFailWithTheirValues) {
  BOOST_TEST(failure_without("is [4], expected [3]", [] {
               normed(Tensor::zeros({2, 3, 2, 2}), Tensor::zeros({4}), Tensor::zeros({3}));
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
