#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const AttentionOps op = ops::cuda::attention_ops();

// [n, t, 3, heads, d]: less than a tile, more than one, heads in two, four and eight chunks of columns.
const Shape kShapes[] = {{0, 5, 3, 2, 8},   {1, 1, 3, 1, 1},   {2, 5, 3, 2, 7},
                         {1, 70, 3, 1, 33}, {1, 9, 3, 1, 100}, {1, 3, 3, 1, 200}};

struct Run {
  Tensor y, log_sums, dqkv;

  template <class Ops, class Put, class Empty>
  Run(const Ops& ops, Stream& stream, const Shape& shape, DType dtype, Put put, Empty empty) {
    const Shape rows{shape[0], shape[1], shape[3], shape[4]};
    const Tensor qkv = put(exact(1, shape, dtype)), dy = put(exact(2, rows, dtype));
    y = empty(rows, dtype), log_sums = empty(Shape{shape[0], shape[3], shape[1]}, dtype), dqkv = empty(shape, dtype);
    ops.attention(stream, qkv, 0.4, y, log_sums);
    ops.attention_gradient(stream, qkv, 0.4, y, log_sums, dy, dqkv);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(BothDirectionsAreTheCpus) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes) {
      Stream cpu;
      const Run expected(
          cpu_ops(), cpu, shape, dtype, [](const Tensor& t) { return t; }, unwritten);
      EmulatedStream stream(static_cast<uint64_t>(shape.count()));
      const Run actual(
          op, stream, shape, dtype, [&](const Tensor& t) { return on(stream, t); },
          [&](Shape s, DType d) { return empty_on(stream, s, d); });
      const double tolerance = dtype == DType::f64 ? 1e-12 : 3e-6;
      BOOST_TEST(difference(actual.y, expected.y, tolerance) == "", shape);
      BOOST_TEST(difference(actual.log_sums, expected.log_sums, tolerance) == "", shape);
      BOOST_TEST(difference(actual.dqkv, expected.dqkv, tolerance) == "", shape);
    }
}

BOOST_AUTO_TEST_CASE(TheOrderOfThreadsDoesNotChangeABit) {
  Tensor first;
  for (uint64_t order : kOrders) {
    EmulatedStream stream(order);
    const Run run(
        op, stream, {1, 40, 3, 1, 8}, DType::f64, [&](const Tensor& t) { return on(stream, t); },
        [&](Shape s, DType d) { return empty_on(stream, s, d); });
    if (!first) first = run.dqkv;
    BOOST_TEST(same_bits(run.dqkv, first));
  }
}

BOOST_AUTO_TEST_CASE(AHeadThatRegistersDoNotHoldIsRefusedWithItsValues) {
  EmulatedStream stream(1);
  Tensor qkv = empty_on(stream, {1, 1, 3, 1, 257}, DType::f32);
  BOOST_TEST(failure_without("expected [n, t, 3, heads, 1 to 256]", [&] { op.attention(stream, qkv, 1, qkv, qkv); }) ==
             "");
}

BOOST_AUTO_TEST_SUITE_END()
