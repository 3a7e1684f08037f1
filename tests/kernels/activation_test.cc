#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <numbers>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
using Forward = void (*)(Stream&, const Tensor&, Tensor&);

Tensor apply(Forward f, const Tensor& x) {
  Stream stream;
  Tensor y = unwritten(x.shape(), x.dtype());
  f(stream, x, y);
  return y;
}

// Every size that a vector loop treats differently.
const Shape kShapes[] = {{0}, {1}, {7}, {8, 1}, {3, 11}, {2, 3, 5, 7}, {70001}};

Tensor line(double first, double last, int64_t n) {
  Tensor x = Tensor::empty({n}, DType::f64);
  for (int64_t i = 0; i < n; ++i)
    x.data<double>()[i] =
        static_cast<float>(first + (last - first) * static_cast<double>(i) / static_cast<double>(n - 1));
  return x;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(activation)

BOOST_AUTO_TEST_CASE(ReluKeepsWhatIsPositive) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes) {
      const Tensor x = exact(1, shape, dtype), y = apply(op.relu, x);
      int64_t wrong = 0;
      for (int64_t i = 0; i < x.count(); ++i) wrong += at(y, i) != std::max(at(x, i), 0.0);
      BOOST_TEST(wrong == 0, shape);
    }
}

BOOST_AUTO_TEST_CASE(ReluKeepsNaN) {
  Tensor x = Tensor::zeros({33});
  x.data<float>()[3] = x.data<float>()[32] = std::nanf("");
  const Tensor y = apply(op.relu, x);
  BOOST_TEST(std::isnan(at(y, 3)));
  BOOST_TEST(std::isnan(at(y, 32)));
}

BOOST_AUTO_TEST_CASE(ReluAndItsGradientMayWorkInPlace) {
  Stream stream;
  const Tensor x = exact(1, {1001}, DType::f32), dy = exact(2, {1001}, DType::f32), y = apply(op.relu, x);
  Tensor in_place = x.clone(), dx = unwritten({1001}, DType::f32), dx_in_place = dy.clone();
  op.relu(stream, in_place, in_place);
  BOOST_TEST(same_bits(in_place, y));
  op.relu_gradient(stream, y, dy, dx);
  op.relu_gradient(stream, y, dx_in_place, dx_in_place);
  BOOST_TEST(same_bits(dx_in_place, dx));
}

BOOST_AUTO_TEST_CASE(GradientsAgreeWithFiniteDifferences) {
  Stream stream;
  Tensor x = normal(1, {3, 41}), dy = normal(2, {3, 41}), dx = unwritten({3, 41}, DType::f64);
  op.relu_gradient(stream, apply(op.relu, x), dy, dx);
  BOOST_TEST(gradient_difference(dx, finite_differences(x, [&] { return dot(apply(op.relu, x), dy); })) ==
             "");
  op.gelu_gradient(stream, x, dy, dx);
  BOOST_TEST(gradient_difference(dx, finite_differences(x, [&] { return dot(apply(op.gelu, x), dy); })) ==
             "");
  op.gelu_tanh_gradient(stream, x, dy, dx);
  BOOST_TEST(gradient_difference(dx, finite_differences(x, [&] { return dot(apply(op.gelu_tanh, x), dy); })) == "");
}

BOOST_AUTO_TEST_CASE(TheTanhFormOfGeluIsWithinItsDistanceOfTheExactOne) {
  const Tensor x = line(-6, 6, 10001), y = apply(op.gelu_tanh, x), exact_y = apply(op.gelu, x);
  double largest = 0;
  for (int64_t i = 0; i < x.count(); ++i) largest = std::max(largest, std::abs(at(y, i) - at(exact_y, i)));
  BOOST_TEST(largest < 5e-4);
  BOOST_TEST(largest > 1e-4);
  const double u = std::sqrt(2 / std::numbers::pi) * (1 + 0.044715);
  BOOST_TEST(std::abs(at(apply(op.gelu_tanh, line(1, 1, 2)), 0) - (1 + std::tanh(u)) / 2) < 1e-12);
  BOOST_TEST(difference(apply(op.gelu_tanh, as(DType::f32, x)), y, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(SwigluGatesTheValuesBesideTheGates) {
  Stream stream;
  for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-12), std::pair(DType::f32, 1e-6)})
    for (int64_t w : {1, 5, 33}) {
      const Tensor x = exact(1, {3, 2 * w});
      Tensor y = unwritten({3, w}, dtype), expected = Tensor::empty({3, w}, DType::f64);
      for (int64_t i = 0; i < y.count(); ++i) {
        const double gate = at(x, i / w * 2 * w + i % w), value = at(x, i / w * 2 * w + w + i % w);
        expected.data<double>()[i] = gate / (1 + std::exp(-gate)) * value;
      }
      op.swiglu(stream, as(dtype, x), y);
      BOOST_TEST(difference(y, expected, tolerance) == "");
    }
}

BOOST_AUTO_TEST_CASE(TheGradientOfSwigluIsThatOfFiniteDifferencesAndMayLieInItsInput) {
  Stream stream;
  Tensor x = normal(1, {4, 14}), y = unwritten({4, 7}, DType::f64), dx = unwritten({4, 14}, DType::f64);
  const Tensor dy = normal(2, {4, 7});
  op.swiglu_gradient(stream, x, dy, dx);
  const auto loss = [&] {
    op.swiglu(stream, x, y);
    return dot(y, dy);
  };
  BOOST_TEST(gradient_difference(dx, finite_differences(x, loss)) == "");
  op.swiglu_gradient(stream, x, dy, x);
  BOOST_TEST(same_bits(x, dx));
}

BOOST_AUTO_TEST_CASE(GeluIsTheExactForm) {
  // x Phi(x) with Phi from a table of the normal distribution (the tanh form differs in the fourth digit).
  const Tensor y = apply(op.gelu, Tensor::from<double>(std::vector<double>{-2, -0.5, 0, 1, 3}, {5}));
  BOOST_TEST(
      difference(y,
                 Tensor::from<double>(
                     std::vector<double>{-0.0455002639, -0.1542687694, 0, 0.8413447461, 2.9959503059}, {5}),
                 1e-10) == "");
}

BOOST_AUTO_TEST_CASE(FloatGeluStaysCloseToDouble) {
  const Tensor x = line(-12, 12, 100003), y = apply(op.gelu, as(DType::f32, x)), exact_y = apply(op.gelu, x);
  double worst = 0;
  for (int64_t i = 0; i < x.count(); ++i)
    worst = std::max(worst, std::abs(at(y, i) - at(exact_y, i)) / (3e-7 * (1 + std::abs(at(x, i)))));
  BOOST_TEST(worst <= 1);
}

BOOST_AUTO_TEST_CASE(FloatGeluGradientStaysCloseToDouble) {
  Stream stream;
  const Tensor x = line(-12, 12, 100003);
  const Tensor ones = as(DType::f64, Tensor::zeros({100003}));
  Tensor dy = ones.clone(), f = unwritten(x.shape(), DType::f32), d = unwritten(x.shape(), DType::f64);
  op.fill(stream, 1, dy);
  op.gelu_gradient(stream, as(DType::f32, x), as(DType::f32, dy), f);
  op.gelu_gradient(stream, x, dy, d);
  BOOST_TEST(difference(f, d, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(GeluOfWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor y =
      apply(op.gelu, Tensor::from<float>(std::vector<float>{std::nanf(""), kInf, 1e30f, -1e30f}, {4}));
  BOOST_TEST(std::isnan(at(y, 0)));
  BOOST_TEST(at(y, 1) == kInf);
  BOOST_TEST(at(y, 2) == 1e30f);
  BOOST_TEST(at(y, 3) == 0);
}

BOOST_AUTO_TEST_CASE(TwoThreadsGiveTheSameBits) {
  Stream two({}, 2);
  const Tensor x = exact(1, {200003}, DType::f32);
  Tensor y = unwritten(x.shape(), DType::f32);
  op.gelu(two, x, y);
  BOOST_TEST(same_bits(y, apply(op.gelu, x)));
}

BOOST_AUTO_TEST_CASE(ShapesThatDifferFailWithTheirValues) {
  Stream stream;
  Tensor y = Tensor::empty({3});
  BOOST_TEST(failure_without("y is [3], expected [4]", [&] { op.relu(stream, Tensor::empty({4}), y); }) ==
             "");
  BOOST_TEST(failure_without("expected F32 or F64, not I32", [&] {
               Tensor ids = Tensor::empty({3}, DType::i32);
               op.gelu(stream, ids, ids);
             }) == "");
  BOOST_TEST(failure_without("dy is [2, 2], expected [4]", [&] {
               op.gelu_gradient(stream, Tensor::empty({4}), Tensor::empty({2, 2}), y);
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
