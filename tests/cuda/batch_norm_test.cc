#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const BatchNormOps op = ops::cuda::batch_norm_ops();
const Shape kShapes[] = {{0, 3}, {2, 1}, {131, 37}, {700, 5}, {5, 7, 3, 11}, {0, 2, 3, 3}, {3, 2, 57, 61}};

struct Run {
  Tensor y, mean, variance, inferred, dx, dgamma, dbeta;

  template <class Ops, class Put>
  Run(const Ops& ops, Stream& stream, const Shape& shape, DType dtype, Write write, Put put) {
    const auto number = [&](uint64_t seed, Shape s) { return put(exact(seed, s, dtype)); };
    const Shape channel{shape[1]};
    const Tensor x = number(1, shape), gamma = number(2, channel), beta = number(3, channel), dy = number(4, shape);
    y = number(5, shape), mean = number(5, channel), variance = number(5, channel), inferred = number(5, shape);
    ops.batch_norm(stream, x, gamma, beta, 1e-5, y, mean, variance);
    ops.batch_norm_inference(stream, dy, gamma, beta, mean, variance, 1e-5, inferred);
    dx = number(5, shape), dgamma = number(6, channel), dbeta = number(7, channel);
    ops.batch_norm_gradient(stream, x, gamma, mean, variance, 1e-5, dy, write, dx, dgamma, dbeta);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(batch_norm)

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
            const double tolerance = dtype == DType::f64 ? 1e-11 : 3e-6;
            BOOST_TEST(difference(actual.y, expected.y, tolerance) == "", shape);
            BOOST_TEST(difference(actual.mean, expected.mean, tolerance) == "", shape);
            BOOST_TEST(difference(actual.variance, expected.variance, tolerance) == "", shape);
            BOOST_TEST(difference(actual.inferred, expected.inferred, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dx, expected.dx, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dgamma, expected.dgamma, tolerance) == "", shape);
            BOOST_TEST(difference(actual.dbeta, expected.dbeta, tolerance) == "", shape);
          }
      }
}

BOOST_AUTO_TEST_CASE(AVarianceMuchSmallerThanTheMeanIsKept) {
  EmulatedStream stream(1);
  Tensor x = exact(1, {4000, 2}, DType::f32);
  for (float& v : x.span<float>()) v = 1000 + 0.1f * v;
  const Tensor gamma = on(stream, exact(2, {2}, DType::f32));
  Tensor y = empty_on(stream, x.shape(), DType::f32), mean = empty_on(stream, {2}, DType::f32), variance;
  variance = empty_on(stream, {2}, DType::f32);
  op.batch_norm(stream, on(stream, x), gamma, gamma, 1e-5, y, mean, variance);
  for (int c = 0; c < 2; ++c) BOOST_TEST(std::abs(at(variance, c) - 0.01) < 0.001);
}

BOOST_AUTO_TEST_CASE(GradientsMayLieWhereDyLay) {
  EmulatedStream stream(2);
  const Shape shape{5, 7, 3, 11};
  const Tensor x = on(stream, exact(1, shape, DType::f32)),
               v = on(stream, Tensor::from<float>(std::vector<float>(7, 2), {7}));
  Tensor dx = empty_on(stream, shape, DType::f32), in_place = on(stream, exact(2, shape, DType::f32));
  Tensor dgamma = empty_on(stream, {7}, DType::f32), dbeta = empty_on(stream, {7}, DType::f32);
  op.batch_norm_gradient(stream, x, v, v, v, 1e-5, in_place, Write::set, dx, dgamma, dbeta);
  op.batch_norm_gradient(stream, x, v, v, v, 1e-5, in_place, Write::set, in_place, dgamma, dbeta);
  BOOST_TEST(same_bits(in_place, dx));
}

BOOST_AUTO_TEST_SUITE_END()
