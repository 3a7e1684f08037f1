#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
using Reduction = void (*)(Stream&, const Tensor&, Tensor&);

double reduced(Reduction f, const Tensor& x) {
  Stream stream;
  Tensor result = unwritten({1}, DType::f64);
  f(stream, x, result);
  return at(result, 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reduce)

BOOST_AUTO_TEST_CASE(SumsAreThoseOfTheDefinition) {
  for (DType dtype : {DType::f32, DType::f64})
    for (Shape shape : {Shape{0}, Shape{1}, Shape{15}, Shape{16}, Shape{3, 5, 7}, Shape{10007}}) {
      const Tensor x = exact(1, shape, dtype);
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < x.count(); ++i) sum += at(x, i), squares += at(x, i) * at(x, i);
      BOOST_TEST(std::abs(reduced(op.sum, x) - sum) <= 1e-11 * (1 + std::abs(sum)), shape);
      BOOST_TEST(std::abs(reduced(op.sum_of_squares, x) - squares) <= 1e-13 * (1 + squares), shape);
    }
}

BOOST_AUTO_TEST_CASE(FloatsAreAddedInDoublePrecision) {
  Stream stream;
  Tensor x = Tensor::empty({1 << 20});
  op.fill(stream, 0.1, x);
  const double tenth = static_cast<double>(0.1f);
  BOOST_TEST(std::abs(reduced(op.sum, x) / (tenth * (1 << 20)) - 1) < 1e-12);
}

BOOST_AUTO_TEST_CASE(TheBitsDoNotDependOnWhereATensorLies) {
  const Tensor memory = exact(1, {1100}, DType::f32);
  for (int64_t begin : {1, 3, 8, 17}) {
    const Tensor part = memory.view(begin, {1001});
    BOOST_TEST(reduced(op.sum, part) == reduced(op.sum, part.clone()));
    BOOST_TEST(reduced(op.sum_of_squares, part) == reduced(op.sum_of_squares, part.clone()));
  }
}

BOOST_AUTO_TEST_CASE(TheSumOfSquaresOfFiniteFloatsIsFinite) {
  Stream stream;
  Tensor x = Tensor::empty({1000});
  op.fill(stream, static_cast<double>(std::numeric_limits<float>::max()), x);
  BOOST_TEST(std::isfinite(reduced(op.sum_of_squares, x)));
}

BOOST_AUTO_TEST_CASE(EveryPlaceIsSearchedForWhatIsNotFinite) {
  for (DType dtype : {DType::f32, DType::f64})
    for (int64_t i = 0; i < 35; ++i)
      for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity()}) {
        Tensor x = normal(1, {35});
        x.data<double>()[i] = bad;
        BOOST_TEST(reduced(op.count_non_finite, as(dtype, x)) == 1, bad << " at " << i);
        BOOST_TEST(!std::isfinite(reduced(op.sum_of_squares, as(dtype, x))), bad << " at " << i);
      }
  BOOST_TEST(reduced(op.count_non_finite, exact(1, {1001})) == 0);
}

BOOST_AUTO_TEST_CASE(AResultOfAnotherTypeFailsWithItsValues) {
  Stream stream;
  Tensor result = Tensor::empty({1});
  BOOST_TEST(failure_without("result is F32, expected F64",
                             [&] { op.sum(stream, Tensor::zeros({3}), result); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
