#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

Shape stored(Trans trans, int64_t rows, int64_t columns) {
  return trans == Trans::yes ? Shape{columns, rows} : Shape{rows, columns};
}

// c = op(a) op(b) + beta c by the definition.
Tensor product(Trans ta, Trans tb, const Tensor& a, const Tensor& b, double beta, const Tensor& c) {
  Tensor out = c.clone();
  const int64_t m = c.shape()[0], n = c.shape()[1], k = a.shape()[ta == Trans::yes ? 0 : 1];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = beta == 0 ? 0 : beta * at(c, i * n + j);
      for (int64_t l = 0; l < k; ++l)
        sum +=
            at(a, ta == Trans::yes ? l * m + i : i * k + l) * at(b, tb == Trans::yes ? j * k + l : l * n + j);
      out.data<double>()[i * n + j] = sum;
    }
  return out;
}

void check_gemm(DType dtype, Trans ta, Trans tb, Shape mnk, double beta, double tolerance) {
  Stream stream;
  const Tensor a = exact(1, stored(ta, mnk[0], mnk[2])), b = exact(2, stored(tb, mnk[2], mnk[1]));
  const Tensor before = exact(3, {mnk[0], mnk[1]});
  Tensor c = as(dtype, before);
  op.gemm(stream, ta, tb, as(dtype, a), as(dtype, b), beta, c);
  BOOST_TEST(difference(c, product(ta, tb, a, b, beta, before), tolerance) == "", mnk << " beta " << beta);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gemm)

BOOST_AUTO_TEST_CASE(EveryTransposeGivesTheProductOfTheDefinition) {
  for (Trans ta : {Trans::no, Trans::yes})
    for (Trans tb : {Trans::no, Trans::yes})
      for (Shape mnk :
           {Shape{1, 1, 1}, Shape{7, 13, 5}, Shape{37, 1, 19}, Shape{1, 41, 23}, Shape{33, 67, 129}})
        for (double beta : {0.0, 1.0, -0.5}) {
          check_gemm(DType::f64, ta, tb, mnk, beta, 1e-13);
          check_gemm(DType::f32, ta, tb, mnk, beta, 2e-6);
        }
}

BOOST_AUTO_TEST_CASE(BetaZeroDoesNotReadTheResult) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64})
    for (int64_t k : {0, 3}) {
      Tensor c = unwritten({5, 9}, dtype);
      op.gemm(stream, Trans::no, Trans::no, exact(1, {5, k}, dtype), exact(2, {k, 9}, dtype), 0, c);
      BOOST_TEST(std::isfinite(dot(c, c)), name_of(dtype) << ", k = " << k);
    }
}

BOOST_AUTO_TEST_CASE(AnInnerSizeOfZeroLeavesBetaTimesTheResult) {
  check_gemm(DType::f32, Trans::no, Trans::no, {3, 4, 0}, 0.5, 1e-7);
  check_gemm(DType::f64, Trans::no, Trans::no, {3, 4, 0}, 0.5, 1e-15);
}

BOOST_AUTO_TEST_CASE(EmptyMatricesAreLegal) {
  check_gemm(DType::f32, Trans::no, Trans::yes, {0, 4, 3}, 0, 1e-7);
  check_gemm(DType::f32, Trans::yes, Trans::no, {4, 0, 3}, 0, 1e-7);
  check_gemm(DType::f64, Trans::no, Trans::yes, {0, 4, 3}, 0, 1e-7);
}

BOOST_AUTO_TEST_CASE(TwoThreadsGiveTheSameProduct) {
  Stream one, two({}, 2);
  const Tensor a = exact(1, {65, 131}, DType::f32), b = exact(2, {77, 131}, DType::f32);
  Tensor c = unwritten({65, 77}, DType::f32), d = unwritten({65, 77}, DType::f32);
  op.gemm(one, Trans::no, Trans::yes, a, b, 0, c);
  op.gemm(two, Trans::no, Trans::yes, a, b, 0, d);
  BOOST_TEST(difference(c, d, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(SizesThatDoNotFitFailWithTheirValues) {
  Stream stream;
  Tensor c = Tensor::empty({2, 4});
  BOOST_TEST(failure_without("b is [5, 4], expected [3, 4]", [&] {
               op.gemm(stream, Trans::no, Trans::no, Tensor::empty({2, 3}), Tensor::empty({5, 4}), 0, c);
             }) == "");
  BOOST_TEST(failure_without("c is [2, 4], expected [7, 4]", [&] {
               op.gemm(stream, Trans::no, Trans::no, Tensor::empty({7, 3}), Tensor::empty({3, 4}), 0, c);
             }) == "");
  BOOST_TEST(
      failure_without("b is F64, expected F32", [&] {
        op.gemm(stream, Trans::no, Trans::no, Tensor::empty({2, 3}), Tensor::empty({3, 4}, DType::f64), 0, c);
      }) == "");
  BOOST_TEST(failure_without("a is an empty tensor", [&] {
               op.gemm(stream, Trans::no, Trans::no, Tensor{}, Tensor::empty({3, 4}), 0, c);
             }) == "");
}

BOOST_AUTO_TEST_CASE(LinearAddsTheBiasAndAppliesTheRelu) {
  Stream stream;
  const Tensor x = exact(1, {11, 17}), w = exact(2, {5, 17}), bias = exact(3, {5});
  Tensor expected = product(Trans::no, Trans::yes, x, w, 0, Tensor::zeros({11, 5}, DType::f64));
  for (int64_t i = 0; i < expected.count(); ++i)
    expected.data<double>()[i] = std::max(0.0, at(expected, i) + at(bias, i % 5));
  for (DType dtype : {DType::f32, DType::f64}) {
    Tensor y = unwritten({11, 5}, dtype);
    op.linear(stream, as(dtype, x), as(dtype, w), as(dtype, bias), Epilogue::relu, y);
    BOOST_TEST(difference(y, expected, 2e-6) == "", name_of(dtype));
  }
}

BOOST_AUTO_TEST_CASE(LinearAppliesAGeluWithBiasAndWithout) {
  Stream stream;
  const Tensor x = exact(1, {11, 17}, DType::f32), w = exact(2, {5, 17}, DType::f32), b = exact(3, {5}, DType::f32);
  for (const Tensor& bias : {b, Tensor{}})
    for (Epilogue gelu : {Epilogue::gelu, Epilogue::gelu_tanh}) {
      Tensor plain = unwritten({11, 5}, DType::f32), y = unwritten({11, 5}, DType::f32);
      op.linear(stream, x, w, bias, Epilogue::none, plain);
      op.linear(stream, x, w, bias, gelu, y);
      (gelu == Epilogue::gelu ? op.gelu : op.gelu_tanh)(stream, plain, plain);
      BOOST_TEST(difference(y, plain, 1e-6) == "");
    }
}

BOOST_AUTO_TEST_CASE(LinearWithoutBiasIsTheProduct) {
  Stream stream;
  const Tensor x = exact(1, {3, 7}), w = exact(2, {4, 7});
  Tensor y = unwritten({3, 4}, DType::f64), relu = unwritten({3, 4}, DType::f64);
  op.linear(stream, x, w, Tensor{}, Epilogue::none, y);
  op.linear(stream, x, w, Tensor{}, Epilogue::relu, relu);
  const Tensor expected = product(Trans::no, Trans::yes, x, w, 0, Tensor::zeros({3, 4}, DType::f64));
  BOOST_TEST(difference(y, expected, 1e-13) == "");
  for (int64_t i = 0; i < y.count(); ++i) BOOST_TEST(at(relu, i) == std::max(0.0, at(y, i)));
}

BOOST_AUTO_TEST_CASE(GradientsOfLinearAgreeWithFiniteDifferences) {
  Stream stream;
  Tensor x = normal(1, {4, 6}), w = normal(2, {3, 6}), bias = normal(3, {3}), dy = normal(4, {4, 3});
  const auto loss = [&] {
    Tensor y = Tensor::empty({4, 3}, DType::f64);
    op.linear(stream, x, w, bias, Epilogue::none, y);
    return dot(y, dy);
  };
  Tensor dx = unwritten(x.shape(), DType::f64), dw = unwritten(w.shape(), DType::f64),
         db = unwritten({3}, DType::f64);
  op.gemm(stream, Trans::no, Trans::no, dy, w, 0, dx);
  op.gemm(stream, Trans::yes, Trans::no, dy, x, 0, dw);
  op.bias_gradient(stream, dy, Write::set, db);
  BOOST_TEST(gradient_difference(dx, finite_differences(x, loss)) == "");
  BOOST_TEST(gradient_difference(dw, finite_differences(w, loss)) == "");
  BOOST_TEST(gradient_difference(db, finite_differences(bias, loss)) == "");
}

BOOST_AUTO_TEST_SUITE_END()
