#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
constexpr double kEpsilon = 1e-5;
const Shape kShapes[] = {{1, 1}, {0, 5}, {3, 7}, {70, 33}, {2, 515}};

struct Normed {
  Tensor y, mean, rstd;
};

Normed normed(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  Stream stream;
  const int64_t m = x.shape()[0];
  Normed out{unwritten(x.shape(), x.dtype()), unwritten({m}, x.dtype()), unwritten({m}, x.dtype())};
  op.layer_norm(stream, x, gamma, beta, kEpsilon, out.y, out.mean, out.rstd);
  return out;
}

struct Gradients {
  Tensor dx, dgamma, dbeta;
};

Gradients gradients(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy) {
  Stream stream;
  const Normed n = normed(x, gamma, beta);
  Gradients g{unwritten(x.shape(), x.dtype()), unwritten(gamma.shape(), x.dtype()),
              unwritten(gamma.shape(), x.dtype())};
  op.layer_norm_input_gradient(stream, x, gamma, n.mean, n.rstd, dy, g.dx);
  op.layer_norm_weight_gradient(stream, x, n.mean, n.rstd, dy, Write::set, g.dgamma, g.dbeta);
  return g;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_norm)

BOOST_AUTO_TEST_CASE(RowsComeToMeanZeroAndVarianceOneThenAreScaledAndShifted) {
  for (const Shape& shape : kShapes)
    for (DType dtype : {DType::f32, DType::f64}) {
      const int64_t n = shape[1];
      const Tensor x = exact(1, shape), gamma = exact(2, {n}), beta = exact(3, {n});
      Tensor expected = x.clone();
      for (int64_t r = 0; r < shape[0]; ++r) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; ++i) mean += at(x, r * n + i) / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i)
          variance += std::pow(at(x, r * n + i) - mean, 2) / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i)
          expected.data<double>()[r * n + i] =
              (at(x, r * n + i) - mean) / std::sqrt(variance + kEpsilon) * at(gamma, i) + at(beta, i);
      }
      const Normed out = normed(as(dtype, x), as(dtype, gamma), as(dtype, beta));
      BOOST_TEST(difference(out.y, expected, 1e-6) == "", shape);
    }
}

BOOST_AUTO_TEST_CASE(AMeanFarFromZeroCostsNoPrecision) {
  // The variance is taken around the mean: the textbook E[x^2] - E[x]^2 would be noise here.
  Tensor x = exact(1, {4, 100}), ones = Tensor::empty({100}, DType::f64),
         zeros = Tensor::zeros({100}, DType::f64);
  for (double& v : ones.span<double>()) v = 1;
  for (double& v : x.span<double>()) v = static_cast<float>(v + 10000);
  const Tensor f = normed(as(DType::f32, x), as(DType::f32, ones), as(DType::f32, zeros)).y;
  BOOST_TEST(difference(f, normed(x, ones, zeros).y, 2e-3) == "");
}

BOOST_AUTO_TEST_CASE(GradientsAgreeWithFiniteDifferences) {
  Tensor x = normal(1, {5, 7}), gamma = normal(2, {7}), beta = normal(3, {7}), dy = normal(4, {5, 7});
  const auto loss = [&] { return dot(normed(x, gamma, beta).y, dy); };
  const Gradients g = gradients(x, gamma, beta, dy);
  BOOST_TEST(gradient_difference(g.dx, finite_differences(x, loss)) == "");
  BOOST_TEST(gradient_difference(g.dgamma, finite_differences(gamma, loss)) == "");
  BOOST_TEST(gradient_difference(g.dbeta, finite_differences(beta, loss)) == "");
}

BOOST_AUTO_TEST_CASE(FloatGradientsAgreeWithDouble) {
  for (const Shape& shape : kShapes) {
    if (shape[1] == 1) continue;  // all is noise around 0
    const Tensor x = exact(1, shape), gamma = exact(2, {shape[1]}), beta = exact(3, {shape[1]}),
                 dy = exact(4, shape);
    const auto single = [](const Tensor& t) { return as(DType::f32, t); };
    const Gradients d = gradients(x, gamma, beta, dy),
                    f = gradients(single(x), single(gamma), single(beta), single(dy));
    BOOST_TEST(difference(f.dx, d.dx, 2e-6) == "", shape);
    BOOST_TEST(difference(f.dgamma, d.dgamma, 2e-6) == "", shape);
    BOOST_TEST(difference(f.dbeta, d.dbeta, 2e-6) == "", shape);
  }
}

BOOST_AUTO_TEST_CASE(TheInputGradientMayReplaceDyAndWeightGradientsMayAdd) {
  Stream stream;
  const Tensor x = exact(1, {5, 19}, DType::f32), gamma = exact(2, {19}, DType::f32),
               dy = exact(4, {5, 19}, DType::f32);
  const Normed n = normed(x, gamma, gamma);
  const Gradients once = gradients(x, gamma, gamma, dy);
  Tensor dgamma = once.dgamma.clone(), dbeta = once.dbeta.clone(), dx = dy.clone();
  op.layer_norm_weight_gradient(stream, x, n.mean, n.rstd, dy, Write::add, dgamma, dbeta);
  op.scale(stream, 0.5, dgamma);
  op.scale(stream, 0.5, dbeta);
  BOOST_TEST(difference(dgamma, once.dgamma, 1e-6) == "");
  BOOST_TEST(difference(dbeta, once.dbeta, 1e-6) == "");
  op.layer_norm_input_gradient(stream, x, gamma, n.mean, n.rstd, dx, dx);
  BOOST_TEST(same_bits(dx, once.dx));
}

BOOST_AUTO_TEST_CASE(SizesThatDoNotFitFailWithTheirValues) {
  BOOST_TEST(failure_without("gamma is [4], expected [3]", [] {
               normed(Tensor::zeros({2, 3}), Tensor::zeros({4}), Tensor::zeros({3}));
             }) == "");
  BOOST_TEST(failure_without("x is [2, 0]", [] {
               normed(Tensor::zeros({2, 0}), Tensor::zeros({0}), Tensor::zeros({0}));
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
