#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
const Shape kShapes[] = {{0, 3}, {1, 1}, {131, 37}, {5, 7, 3, 11}, {2, 3, 19}, {0, 2, 3, 3}};

int64_t channel(const Shape& shape, int64_t i) {
  return i / (shape.count() / (shape[0] * shape[1])) % shape[1];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bias)

BOOST_AUTO_TEST_CASE(EveryChannelGetsItsBias) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Epilogue epilogue : {Epilogue::none, Epilogue::relu}) {
        const Tensor x = exact(1, shape), b = exact(2, {shape[1]});
        Tensor expected = x.clone(), y = unwritten(shape, dtype), in_place = as(dtype, x);
        for (int64_t i = 0; i < x.count(); ++i) {
          expected.data<double>()[i] += at(b, channel(shape, i));
          if (epilogue == Epilogue::relu) expected.data<double>()[i] = std::max(0.0, at(expected, i));
        }
        op.bias_add(stream, as(dtype, x), as(dtype, b), epilogue, y);
        op.bias_add(stream, in_place, as(dtype, b), epilogue, in_place);
        BOOST_TEST(difference(y, expected, 1e-6) == "", shape);
        BOOST_TEST(same_bits(in_place, y), shape);
      }
}

BOOST_AUTO_TEST_CASE(TheGradientIsTheSumOverAllButTheChannel) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes) {
      const Tensor dy = exact(1, shape);
      Tensor expected = Tensor::zeros({shape[1]}, DType::f64), set = unwritten({shape[1]}, dtype);
      for (int64_t i = 0; i < dy.count(); ++i) expected.data<double>()[channel(shape, i)] += at(dy, i);
      op.bias_gradient(stream, as(dtype, dy), Write::set, set);
      BOOST_TEST(difference(set, expected, 1e-6) == "", shape);
      op.bias_gradient(stream, as(dtype, dy), Write::add, set);
      op.scale(stream, 0.5, set);
      BOOST_TEST(difference(set, expected, 1e-6) == "", shape);
    }
}

BOOST_AUTO_TEST_CASE(ABiasOfAnotherSizeFailsWithItsValues) {
  Stream stream;
  Tensor y = Tensor::empty({2, 3}), db = Tensor::empty({2});
  BOOST_TEST(failure_without("bias is [2], expected [3]",
                             [&] { op.bias_add(stream, y, db, Epilogue::none, y); }) == "");
  BOOST_TEST(failure_without("dbias is [2], expected [3]",
                             [&] { op.bias_gradient(stream, y, Write::set, db); }) == "");
  BOOST_TEST(failure_without("x is [2], expected 2 to 6 dimensions",
                             [&] { op.bias_add(stream, db, db, Epilogue::none, y); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
