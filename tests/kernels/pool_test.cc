#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>
#include <tests/support/window_cases.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

using Case = PoolCase;

const Case kCases[] = {{{1, 1, 2, 2}, {}},        {{2, 3, 28, 28}, {}},      {{3, 2, 7, 9}, {}},
                       {{1, 2, 8, 35}, {}},       {{2, 2, 9, 7}, {3, 2, 1}}, {{1, 3, 6, 5}, {3, 1, 1}},
                       {{1, 1, 5, 5}, {2, 3, 0}}, {{2, 1, 5, 6}, {5, 1, 4}}, {{0, 2, 4, 4}, {}}};

struct MaxPooled {
  Tensor y, choice;
};

MaxPooled max_pooled(const Case& c, const Tensor& x) {
  Stream stream;
  MaxPooled out{unwritten(c.y(), x.dtype()), unwritten(c.y(), DType::u8)};
  op.max_pool(stream, x, c.geometry, out.y, out.choice);
  return out;
}

Tensor avg_pooled(const Case& c, const Tensor& x) {
  Stream stream;
  Tensor y = unwritten(c.y(), x.dtype());
  op.avg_pool(stream, x, c.geometry, y);
  return y;
}

// visit(y index, x index or -1 outside, place in window) over all windows in order.
template <class Visit>
void each_pixel(const Case& c, Visit visit) {
  const Shape y = c.y();
  const auto [window, stride, padding] = c.geometry;
  for (int64_t i = 0; i < y.count(); ++i)
    for (int64_t place = 0; place < window * window; ++place) {
      const int64_t row = i / y[3] % y[2] * stride - padding + place / window;
      const int64_t column = i % y[3] * stride - padding + place % window;
      const bool inside = row >= 0 && row < c.x[2] && column >= 0 && column < c.x[3];
      visit(i, inside ? (i / (y[2] * y[3]) * c.x[2] + row) * c.x[3] + column : -1, place);
    }
}

// The first largest pixel of each window, by the definition.
MaxPooled expected_max(const Case& c, const Tensor& x) {
  MaxPooled out{Tensor::empty(c.y(), DType::f64), Tensor::empty(c.y(), DType::u8)};
  for (double& v : out.y.span<double>()) v = -1e300;
  each_pixel(c, [&](int64_t i, int64_t pixel, int64_t place) {
    if (pixel < 0 || at(x, pixel) <= at(out.y, i)) return;
    out.y.data<double>()[i] = at(x, pixel);
    out.choice.data<uint8_t>()[i] = static_cast<uint8_t>(place);
  });
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(MaxPoolTakesTheLargestPixelOfEachWindow) {
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = exact(1, c.x);
      const MaxPooled actual = max_pooled(c, as(dtype, x)), expected = expected_max(c, x);
      BOOST_TEST(difference(actual.y, expected.y, 0) == "", c);
      BOOST_TEST(same_bits(actual.choice, expected.choice), c);
    }
}

BOOST_AUTO_TEST_CASE(OfEqualPixelsTheFirstIsTaken) {
  for (const Case& c : kCases) {
    Tensor x = exact(1, c.x);
    for (double& v : x.span<double>()) v = std::round(v);  // few values: many ties
    BOOST_TEST(same_bits(max_pooled(c, as(DType::f32, x)).choice, expected_max(c, x).choice), c);
  }
}

BOOST_AUTO_TEST_CASE(NaNWinsWhereverItLies) {
  for (const Case& c : {Case{{1, 1, 2, 2}, {}}, Case{{1, 1, 2, 2}, {2, 1, 0}}})
    for (int64_t i = 0; i < 4; ++i) {
      Tensor x = Tensor::from<float>(std::vector<float>{1, 2, 3, 4}, c.x);
      x.data<float>()[i] = std::nanf("");
      const MaxPooled pooled = max_pooled(c, x);
      BOOST_TEST(std::isnan(at(pooled.y, 0)));
      BOOST_TEST(at(pooled.choice, 0) == i);
    }
}

BOOST_AUTO_TEST_CASE(AvgPoolCountsPaddingAsZeros) {
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = exact(1, c.x);
      Tensor expected = Tensor::zeros(c.y(), DType::f64);
      const double area = static_cast<double>(c.geometry.window * c.geometry.window);
      each_pixel(c, [&](int64_t i, int64_t pixel, int64_t) {
        if (pixel >= 0) expected.data<double>()[i] += at(x, pixel) / area;
      });
      BOOST_TEST(difference(avg_pooled(c, as(dtype, x)), expected, 1e-6) == "", c);
    }
}

BOOST_AUTO_TEST_CASE(GradientsAgreeWithFiniteDifferences) {
  Stream stream;
  for (const Case& c : kCases) {
    Tensor x = normal(1, c.x), dy = normal(2, c.y()), dx = unwritten(c.x, DType::f64);
    op.max_pool_gradient(stream, dy, max_pooled(c, x).choice, c.geometry, dx);
    BOOST_TEST(gradient_difference(dx, finite_differences(
                                           x, [&] { return dot(max_pooled(c, x).y, dy); }, 150)) == "",
               c);
    op.avg_pool_gradient(stream, dy, c.geometry, dx);
    BOOST_TEST(gradient_difference(dx, finite_differences(
                                           x, [&] { return dot(avg_pooled(c, x), dy); }, 150)) == "",
               c);
  }
}

BOOST_AUTO_TEST_CASE(FloatGradientsAgreeWithDouble) {
  Stream stream;
  for (const Case& c : kCases) {
    const Tensor x = exact(1, c.x), dy = exact(2, c.y()), choice = max_pooled(c, x).choice;
    Tensor f = unwritten(c.x, DType::f32), d = unwritten(c.x, DType::f64);
    op.max_pool_gradient(stream, as(DType::f32, dy), choice, c.geometry, f);
    op.max_pool_gradient(stream, dy, choice, c.geometry, d);
    BOOST_TEST(difference(f, d, 1e-6) == "", c);
    op.avg_pool_gradient(stream, as(DType::f32, dy), c.geometry, f);
    op.avg_pool_gradient(stream, dy, c.geometry, d);
    BOOST_TEST(difference(f, d, 1e-6) == "", c);
  }
}

BOOST_AUTO_TEST_CASE(ARelusGradientMayBeTakenBehindThePool) {
  Stream stream;
  const Case c{{2, 3, 8, 10}, {}};
  const Tensor x = exact(1, c.x, DType::f32), dy = exact(2, c.y(), DType::f32);
  Tensor positive = x.clone(), before = unwritten(c.x, DType::f32), behind = before.clone(),
         masked = dy.clone();
  op.relu(stream, positive, positive);
  const MaxPooled pooled = max_pooled(c, positive);
  op.max_pool_gradient(stream, dy, pooled.choice, c.geometry, before);
  op.relu_gradient(stream, positive, before, before);
  op.relu_gradient(stream, pooled.y, masked, masked);
  op.max_pool_gradient(stream, masked, pooled.choice, c.geometry, behind);
  BOOST_TEST(difference(behind, before, 0) == "");
}

BOOST_AUTO_TEST_CASE(GlobalAveragePoolIsTheMeanAndItsGradientTheShare) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64}) {
    const Shape shape{2, 3, 7, 5};
    const Tensor x = exact(1, shape), dy = exact(2, {2, 3});
    Tensor y = unwritten({2, 3}, dtype), dx = unwritten(shape, dtype);
    op.global_avg_pool(stream, as(dtype, x), y);
    op.global_avg_pool_gradient(stream, as(dtype, dy), dx);
    Tensor mean = Tensor::zeros({2, 3}, DType::f64), share = Tensor::zeros(shape, DType::f64);
    for (int64_t i = 0; i < x.count(); ++i) {
      mean.data<double>()[i / 35] += at(x, i) / 35;
      share.data<double>()[i] = at(dy, i / 35) / 35;
    }
    BOOST_TEST(difference(y, mean, 1e-6) == "");
    BOOST_TEST(difference(dx, share, 1e-6) == "");
  }
}

BOOST_AUTO_TEST_CASE(GeometryThatDoesNotFitFailsWithItsValues) {
  BOOST_TEST(failure_without("window 3, stride 1, padding 3", [] {
               pool_output({1, 1, 8, 8}, {3, 1, 3});
             }) == "");
  BOOST_TEST(failure_without("images [1, 1, 2, 8], window 3", [] {
               pool_output({1, 1, 2, 8}, {3, 1, 0});
             }) == "");
  BOOST_TEST(failure_without("window 16", [] { pool_output({1, 1, 32, 32}, {16, 16, 0}); }) == "");
  BOOST_TEST(failure_without("choice is F32, expected U8", [] {
               Stream stream;
               Tensor y = Tensor::empty({1, 1, 2, 2}), choice = Tensor::empty({1, 1, 2, 2});
               op.max_pool(stream, Tensor::empty({1, 1, 4, 4}), {}, y, choice);
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
