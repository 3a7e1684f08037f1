#include <boost/test/unit_test.hpp>

#include <cmath>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

struct Attention {
  Tensor y, log_sums;
};

Attention attend(const Tensor& qkv, double scale, int threads = 1) {
  Stream stream({}, threads);
  const Shape& s = qkv.shape();
  Attention out{unwritten({s[0], s[1], s[3], s[4]}, qkv.dtype()), unwritten({s[0], s[3], s[1]}, qkv.dtype())};
  op.attention(stream, qkv, scale, out.y, out.log_sums);
  return out;
}

Tensor gradient(const Tensor& qkv, double scale, const Tensor& dy, int threads = 1) {
  Stream stream({}, threads);
  const Attention forward = attend(qkv, scale, threads);
  Tensor dqkv = unwritten(qkv.shape(), qkv.dtype());
  op.attention_gradient(stream, qkv, scale, forward.y, forward.log_sums, dy, dqkv);
  return dqkv;
}

// The definition, one query at a time, in double precision.
Attention by_definition(const Tensor& qkv, double scale) {
  const int64_t n = qkv.shape()[0], t = qkv.shape()[1], heads = qkv.shape()[3], d = qkv.shape()[4];
  const auto x = [&](int64_t s, int64_t i, int64_t part, int64_t h, int64_t c) {
    return at(qkv, (((s * t + i) * 3 + part) * heads + h) * d + c);
  };
  Attention out{Tensor::zeros({n, t, heads, d}, DType::f64), Tensor::zeros({n, heads, t}, DType::f64)};
  for (int64_t s = 0; s < n; ++s)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < t; ++i) {
        std::vector<double> weights;
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (int64_t c = 0; c < d; ++c) score += x(s, i, 0, h, c) * x(s, j, 1, h, c);
          weights.push_back(std::exp(scale * score));
          sum += weights.back();
        }
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t c = 0; c < d; ++c)
            out.y.data<double>()[((s * t + i) * heads + h) * d + c] +=
                weights[static_cast<size_t>(j)] / sum * x(s, j, 2, h, c);
        out.log_sums.data<double>()[(s * heads + h) * t + i] = std::log(sum);
      }
  return out;
}

// Lengths below, at and beyond a block, and of several.
const Shape kShapes[] = {{2, 1, 3, 1, 1}, {1, 5, 3, 2, 4}, {2, 64, 3, 1, 8}, {1, 65, 3, 2, 3}, {1, 150, 3, 2, 16}};

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(BlocksGiveWhatTheDefinitionGives) {
  for (const Shape& shape : kShapes) {
    const Tensor qkv = exact(1, shape);
    const Attention expected = by_definition(qkv, 0.3);
    for (const auto& [dtype, tolerance] : {std::pair(DType::f64, 1e-12), std::pair(DType::f32, 2e-6)}) {
      const Attention actual = attend(as(dtype, qkv), 0.3);
      BOOST_TEST(difference(actual.y, expected.y, tolerance) == "", shape);
      BOOST_TEST(difference(actual.log_sums, expected.log_sums, tolerance) == "", shape);
    }
  }
}

BOOST_AUTO_TEST_CASE(TheGradientIsThatOfFiniteDifferences) {
  for (const Shape& shape : {Shape{2, 5, 3, 2, 3}, Shape{1, 70, 3, 1, 2}}) {
    Tensor qkv = normal(1, shape);
    const Tensor dy = normal(2, {shape[0], shape[1], shape[3], shape[4]});
    const Tensor dqkv = gradient(qkv, 0.4, dy);
    const auto loss = [&] { return dot(attend(qkv, 0.4).y, dy); };
    BOOST_TEST(gradient_difference(dqkv, finite_differences(qkv, loss, 150)) == "", shape);
  }
}

BOOST_AUTO_TEST_CASE(SinglePrecisionIsCloseToDouble) {
  for (const Shape& shape : kShapes) {
    const Tensor qkv = exact(1, shape), dy = exact(2, {shape[0], shape[1], shape[3], shape[4]});
    BOOST_TEST(difference(gradient(as(DType::f32, qkv), 0.3, as(DType::f32, dy)), gradient(qkv, 0.3, dy), 5e-6) == "",
               shape);
  }
}

BOOST_AUTO_TEST_CASE(APositionDoesNotSeeLaterOnes) {
  const Tensor qkv = exact(1, {1, 100, 3, 1, 8}, DType::f32);
  Tensor changed = qkv.clone();
  for (int64_t i = 70 * 24; i < changed.count(); ++i) changed.data<float>()[i] += 1;
  const Tensor before = attend(qkv, 0.3).y, after = attend(changed, 0.3).y;
  BOOST_TEST(same_bits(before.view(0, {70, 8}), after.view(0, {70, 8})));
  BOOST_TEST(!same_bits(before.view(70 * 8, {1, 8}), after.view(70 * 8, {1, 8})));
}

BOOST_AUTO_TEST_CASE(LargeScoresDoNotOverflow) {
  Tensor qkv = exact(1, {1, 80, 3, 1, 4}, DType::f32);
  for (float& x : qkv.span<float>()) x *= 100;
  const Attention actual = attend(qkv, 1);
  for (float y : actual.y.span<float>()) BOOST_REQUIRE(std::isfinite(y));
  for (float sum : actual.log_sums.span<float>()) BOOST_REQUIRE(std::isfinite(sum));
}

BOOST_AUTO_TEST_CASE(TheNumberOfThreadsDoesNotChangeTheBits) {
  const Tensor qkv = exact(1, {3, 90, 3, 2, 16}, DType::f32), dy = exact(2, {3, 90, 2, 16}, DType::f32);
  BOOST_TEST(same_bits(attend(qkv, 0.25, 1).y, attend(qkv, 0.25, 2).y));
  BOOST_TEST(same_bits(gradient(qkv, 0.25, dy, 1), gradient(qkv, 0.25, dy, 2)));
}

BOOST_AUTO_TEST_CASE(NoSequencesAndNoPositionsAreLegal) {
  for (const Shape& shape : {Shape{0, 4, 3, 2, 8}, Shape{2, 0, 3, 2, 8}}) {
    const Tensor qkv = Tensor::empty(shape);
    BOOST_TEST(attend(qkv, 1).y.count() == 0);
    BOOST_TEST(gradient(qkv, 1, Tensor::empty({shape[0], shape[1], 2, 8})).count() == 0);
  }
}

BOOST_AUTO_TEST_CASE(AShapeThatIsNotPackedIsABug) {
  Stream stream;
  Tensor y = Tensor::empty({1, 4, 2, 8}), sums = Tensor::empty({1, 2, 4});
  BOOST_TEST(failure_without("[n, t, 3, heads, d]", [&] {
    op.attention(stream, Tensor::empty({1, 4, 2, 2, 8}), 1, y, sums);
  }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
