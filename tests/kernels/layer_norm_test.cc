#include <boost/test/unit_test.hpp>

#include <tests/support/norms.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
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

NormGradients gradients(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy) {
  Stream stream;
  const Normed n = normed(x, gamma, beta);
  NormGradients g(x, gamma);
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
  check_finite_differences({5, 7}, 7, normed, gradients);
}

BOOST_AUTO_TEST_CASE(FloatGradientsAgreeWithDouble) {
  for (const Shape& shape : kShapes)
    if (shape[1] > 1) check_float_against_double(shape, shape[1], gradients);  // else all is noise around 0
}

BOOST_AUTO_TEST_CASE(TheInputGradientMayReplaceDyAndWeightGradientsMayAdd) {
  Stream stream;
  const Tensor x = exact(1, {5, 19}, DType::f32), gamma = exact(2, {19}, DType::f32),
               dy = exact(4, {5, 19}, DType::f32);
  const Normed n = normed(x, gamma, gamma);
  const NormGradients once = gradients(x, gamma, gamma, dy);
  check_added(once, [&](Tensor& dgamma, Tensor& dbeta) {
    op.layer_norm_weight_gradient(stream, x, n.mean, n.rstd, dy, Write::add, dgamma, dbeta);
  });
  Tensor dx = dy.clone();
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
