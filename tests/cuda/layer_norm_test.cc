#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const LayerNormOps op = ops::cuda::layer_norm_ops();
const Shape kShapes[] = {{0, 8}, {1, 1}, {19, 10}, {9, 64}, {150, 37}, {3, 1023}, {2, 1500}, {1, 8200}, {1, 8195}};

// What one direction and the other write, on either backend.
struct Run {
  Tensor y, mean, rstd, dx, dgamma, dbeta;

  template <class Ops, class Put>
  Run(const Ops& ops, Stream& stream, const Shape& shape, DType dtype, Write write, Put put) {
    const auto number = [&](uint64_t seed, Shape s) { return put(exact(seed, s, dtype)); };
    const Shape row{shape[1]}, column{shape[0]};
    const Tensor x = number(1, shape), gamma = number(2, row), beta = number(3, row), dy = number(4, shape);
    y = number(5, shape), mean = number(5, column), rstd = number(5, column);
    ops.layer_norm(stream, x, gamma, beta, 1e-5, y, mean, rstd);
    dx = number(5, shape), dgamma = number(6, row), dbeta = number(7, row);
    ops.layer_norm_input_gradient(stream, x, gamma, mean, rstd, dy, dx);
    ops.layer_norm_weight_gradient(stream, x, mean, rstd, dy, write, dgamma, dbeta);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_norm)

BOOST_AUTO_TEST_CASE(BothDirectionsAreTheCpus) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Write write : {Write::set, Write::add}) {
        Stream cpu;
        const Run expected(cpu_ops(), cpu, shape, dtype, write, [](const Tensor& t) { return t; });
        for (Place place : kPlaces)
          for (uint64_t order : kOrders) {
            EmulatedStream stream(order);
            const Run actual(op, stream, shape, dtype, write, [&](const Tensor& t) { return on(stream, t, place); });
            // A row of one element has variance 0: its rstd, 316, multiplies what is left of the rounding.
            const double tolerance = dtype == DType::f64 ? 1e-11 : 3e-6;
            BOOST_TEST(difference(actual.y, expected.y, tolerance) == "", shape);
            BOOST_TEST(difference(actual.mean, expected.mean, tolerance) == "", shape);
            BOOST_TEST(difference(actual.rstd, expected.rstd, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dx, expected.dx, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dgamma, expected.dgamma, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dbeta, expected.dbeta, tolerance) == "", shape);
          }
      }
}

BOOST_AUTO_TEST_CASE(ResultsMayLieWhereTheInputsLay) {
  for (const Shape& shape : kShapes) {
    EmulatedStream stream(4);
    const Tensor x = on(stream, exact(1, shape, DType::f32)), gamma = on(stream, exact(2, {shape[1]}, DType::f32));
    Tensor y = empty_on(stream, shape, DType::f32), dx = y, mean = empty_on(stream, {shape[0]}, DType::f32);
    Tensor rstd = empty_on(stream, {shape[0]}, DType::f32), y_in_place = on(stream, x), dx_in_place = on(stream, x);
    op.layer_norm(stream, x, gamma, gamma, 1e-5, y, mean, rstd);
    op.layer_norm(stream, y_in_place, gamma, gamma, 1e-5, y_in_place, mean, rstd);
    BOOST_TEST(same_bits(y_in_place, y), shape);
    op.layer_norm_input_gradient(stream, x, gamma, mean, rstd, x, dx);
    op.layer_norm_input_gradient(stream, x, gamma, mean, rstd, dx_in_place, dx_in_place);
    BOOST_TEST(same_bits(dx_in_place, dx), shape);
  }
}

BOOST_AUTO_TEST_CASE(ARowIsReadByOneKernel) {
  EmulatedStream stream(1);
  const Tensor x = on(stream, exact(1, {5, 64}, DType::f32)), gamma = on(stream, exact(2, {64}, DType::f32));
  Tensor y = empty_on(stream, {5, 64}, DType::f32), mean = empty_on(stream, {5}, DType::f32), rstd = mean;
  op.layer_norm(stream, x, gamma, gamma, 1e-5, y, mean, rstd);
  BOOST_TEST(stream.launches().size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
