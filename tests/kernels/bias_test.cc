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

BOOST_AUTO_TEST_CASE(AGeluBehindItIsTheOneOfItsOwn) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Epilogue gelu : {Epilogue::gelu, Epilogue::gelu_tanh}) {
        const Tensor x = exact(1, shape, dtype), b = exact(2, {shape[1]}, dtype);
        Tensor expected = unwritten(shape, dtype), y = unwritten(shape, dtype), in_place = x.clone();
        op.bias_add(stream, x, b, Epilogue::none, expected);
        (gelu == Epilogue::gelu ? op.gelu : op.gelu_tanh)(stream, expected, expected);
        op.bias_add(stream, x, b, gelu, y);
        op.bias_add(stream, in_place, b, gelu, in_place);
        BOOST_TEST(difference(y, expected, 1e-6) == "", shape);
        BOOST_TEST(same_bits(in_place, y), shape);
      }
}

// Rows that fill no block of sums, one, and some.
BOOST_AUTO_TEST_CASE(TheGradientOfAGeluBringsThatOfTheBias) {
  Stream stream;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{0, 3}, Shape{5, 1}, Shape{64, 7}, Shape{131, 37}})
      for (Epilogue gelu : {Epilogue::gelu, Epilogue::gelu_tanh}) {
        const Tensor x = exact(1, shape, dtype), b = exact(2, {shape[1]}, dtype), dy = exact(3, shape, dtype);
        Tensor z = unwritten(shape, dtype), dx = unwritten(shape, dtype), db = unwritten({shape[1]}, dtype);
        Tensor fused_dx = dy.clone(), fused_db = unwritten({shape[1]}, dtype);
        op.bias_add(stream, x, b, Epilogue::none, z);
        (gelu == Epilogue::gelu ? op.gelu_gradient : op.gelu_tanh_gradient)(stream, z, dy, dx);
        op.bias_gradient(stream, dx, Write::set, db);
        op.bias_gelu_gradient(stream, x, b, gelu, fused_dx, Write::set, fused_dx, fused_db);
        BOOST_TEST(difference(fused_dx, dx, 1e-6) == "", shape);
        BOOST_TEST(difference(fused_db, db, 1e-6) == "", shape);
        op.bias_gelu_gradient(stream, x, b, gelu, dy, Write::add, fused_dx, fused_db);
        op.scale(stream, 0.5, fused_db);
        BOOST_TEST(difference(fused_db, db, 1e-6) == "", shape);
      }
}

BOOST_AUTO_TEST_CASE(ThreadsDoNotChangeABitOfIt) {
  const Shape shape{1000, 96};
  const Tensor x = exact(1, shape, DType::f32), b = exact(2, {96}, DType::f32), dy = exact(3, shape, DType::f32);
  Tensor dx[2], db[2];
  for (int i = 0; i < 2; ++i) {
    Stream stream({}, 1 + 2 * i);
    dx[i] = unwritten(shape, DType::f32);
    db[i] = unwritten({96}, DType::f32);
    op.bias_gelu_gradient(stream, x, b, Epilogue::gelu, dy, Write::set, dx[i], db[i]);
  }
  BOOST_TEST(same_bits(dx[0], dx[1]));
  BOOST_TEST(same_bits(db[0], db[1]));
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
  BOOST_TEST(failure_without("epilogue 1 is no gelu", [&] {
               Tensor dy = Tensor::empty({2, 3}), b = Tensor::empty({3});
               op.bias_gelu_gradient(stream, y, b, Epilogue::relu, dy, Write::set, dy, b);
             }) == "");
  BOOST_TEST(failure_without("x is [2], expected 2 to 6 dimensions",
                             [&] { op.bias_add(stream, db, db, Epilogue::none, y); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
