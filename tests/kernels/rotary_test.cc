#include <boost/test/unit_test.hpp>

#include <cmath>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

Tensor turned(const Tensor& qkv, double base) {
  Stream stream;
  Tensor y = qkv.clone();
  op.rotary(stream, base, y);
  return y;
}

// Of the packed [n, t, 3, heads, d].
int64_t element(const Shape& s, int64_t i, int64_t part, int64_t head, int64_t c) {
  return ((i * 3 + part) * s[3] + head) * s[4] + c;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rotary)

BOOST_AUTO_TEST_CASE(PairsTurnByTheAngleOfTheirPosition) {
  const Shape shape{1, 5, 3, 2, 6};
  const Tensor x = exact(1, shape), y = turned(x, 100);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t c = 0; c < 3; ++c) {
        const double angle = static_cast<double>(i) * std::pow(100.0, -2.0 * static_cast<double>(c) / 6);
        const double a = at(x, element(shape, i, part, 1, c)), b = at(x, element(shape, i, part, 1, c + 3));
        const double left = at(y, element(shape, i, part, 1, c)), right = at(y, element(shape, i, part, 1, c + 3));
        BOOST_TEST(std::abs(left - (a * std::cos(angle) - b * std::sin(angle))) < 1e-12);
        BOOST_TEST(std::abs(right - (b * std::cos(angle) + a * std::sin(angle))) < 1e-12);
      }
  BOOST_TEST(difference(turned(as(DType::f32, x), 100), y, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(ValuesStay) {
  const Shape shape{2, 4, 3, 1, 4};
  const Tensor x = exact(1, shape), y = turned(x, 10000);
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t c = 0; c < 4; ++c)
      BOOST_TEST(at(y, element(shape, i, 2, 0, c)) == at(x, element(shape, i, 2, 0, c)));
}

BOOST_AUTO_TEST_CASE(ProductsDependOnTheDistanceOfPositionsAlone) {
  Tensor x = Tensor::empty({1, 9, 3, 1, 8}, DType::f64);
  const Tensor one = exact(1, {3, 8});
  for (int64_t i = 0; i < x.count(); ++i) x.data<double>()[i] = at(one, i % 24);
  const Tensor y = turned(x, 10000);
  const auto product = [&](int64_t i, int64_t j) { return dot(y.view(i * 24, {8}), y.view(j * 24 + 8, {8})); };
  BOOST_TEST(std::abs(product(5, 2) - product(8, 5)) < 1e-12);
  BOOST_TEST(std::abs(product(5, 2) - product(5, 3)) > 1e-3);
}

BOOST_AUTO_TEST_CASE(TheGradientTurnsBack) {
  Stream stream;
  const Tensor x = exact(1, {2, 7, 3, 2, 4});
  Tensor back = turned(x, 50);
  op.rotary_gradient(stream, 50, back);
  BOOST_TEST(difference(back, x, 1e-12) == "");
}

BOOST_AUTO_TEST_CASE(AnOddHeadIsABug) {
  Stream stream;
  Tensor x = Tensor::empty({1, 4, 3, 2, 3});
  BOOST_TEST(failure_without("an even width", [&] { op.rotary(stream, 100, x); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
