#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const RotaryOps op = ops::cuda::rotary_ops();

}  // namespace

BOOST_AUTO_TEST_SUITE(rotary)

BOOST_AUTO_TEST_CASE(BothDirectionsAreTheCpus) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape :
         {Shape{0, 3, 3, 1, 2}, Shape{1, 1, 3, 1, 2}, Shape{3, 11, 3, 3, 6}, Shape{1, 40, 3, 2, 34}})
      for (auto of : {&RotaryOps::rotary, &RotaryOps::rotary_gradient}) {
        EmulatedStream stream(1);
        Tensor expected = exact(1, shape, dtype), qkv = on(stream, expected);
        (cpu_ops().*of)(cpu, 10000, expected);
        (op.*of)(stream, 10000, qkv);
        BOOST_TEST(difference(qkv, expected, dtype == DType::f64 ? 1e-14 : 1e-6) == "", shape);
      }
}

BOOST_AUTO_TEST_CASE(WhatDoesNotFitFailsWithItsValues) {
  EmulatedStream stream(1);
  Tensor odd = empty_on(stream, {1, 1, 3, 1, 3}, DType::f32);
  BOOST_TEST(failure_without("an even width", [&] { op.rotary(stream, 10000, odd); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
