#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const ActivationOps op = ops::cuda::activation_ops();

// The largest difference from the CPU's numbers, in words: "" when there is none to speak of.
template <class Run>
std::string unlike_cpu(Run run) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{13, 79}})
      for (Place place : kPlaces)
        for (uint64_t order : kOrders) {
          EmulatedStream stream(order);
          const Tensor x = exact(1, shape, dtype), dy = exact(2, shape, dtype);
          Tensor expected = unwritten(shape, dtype), y = empty_on(stream, shape, dtype, place);
          Tensor in_place = on(stream, dy, place);
          const Tensor device_x = on(stream, x, place);
          run(cpu_ops(), cpu, x, dy, expected);
          run(op, stream, device_x, in_place, y);
          run(op, stream, device_x, in_place, in_place);
          const std::string gap = difference(y, expected, 1e-6);
          if (!gap.empty()) return cat(name_of(dtype), shape, ": ", gap);
          if (!same_bits(in_place, y)) return cat(name_of(dtype), shape, ": in place it is another result");
        }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(activation)

BOOST_AUTO_TEST_CASE(ReluIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor&, const Tensor& dy, Tensor& y) {
               ops.relu(s, dy, y);
             }) == "");
}

BOOST_AUTO_TEST_CASE(ReluGradientIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor& x, const Tensor& dy, Tensor& dx) {
               ops.relu_gradient(s, x, dy, dx);
             }) == "");
}

BOOST_AUTO_TEST_CASE(GeluIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor&, const Tensor& dy, Tensor& y) {
               ops.gelu(s, dy, y);
             }) == "");
}

BOOST_AUTO_TEST_CASE(GeluGradientIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor& x, const Tensor& dy, Tensor& dx) {
               ops.gelu_gradient(s, x, dy, dx);
             }) == "");
}

BOOST_AUTO_TEST_CASE(GeluTanhIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor&, const Tensor& dy, Tensor& y) {
               ops.gelu_tanh(s, dy, y);
             }) == "");
}

BOOST_AUTO_TEST_CASE(GeluTanhGradientIsTheCpus) {
  BOOST_TEST(unlike_cpu([](const auto& ops, Stream& s, const Tensor& x, const Tensor& dy, Tensor& dx) {
               ops.gelu_tanh_gradient(s, x, dy, dx);
             }) == "");
}

BOOST_AUTO_TEST_CASE(SwigluAndItsGradientAreTheCpus) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : {Shape{0, 4}, Shape{3, 0}, Shape{1, 2}, Shape{13, 74}, Shape{9, 64}})
      for (Place place : kPlaces) {
        EmulatedStream stream(1);
        const Shape half{shape[0], shape[1] / 2};
        const Tensor x = exact(1, shape, dtype), dy = exact(2, half, dtype);
        Tensor y = unwritten(half, dtype), dx = unwritten(shape, dtype),
               device_y = empty_on(stream, half, dtype, place);
        Tensor device_dx = on(stream, x, place);  // in place
        cpu_ops().swiglu(cpu, x, y);
        cpu_ops().swiglu_gradient(cpu, x, dy, dx);
        op.swiglu(stream, device_dx, device_y);
        op.swiglu_gradient(stream, device_dx, on(stream, dy, place), device_dx);
        BOOST_TEST(difference(device_y, y, 1e-6) == "", shape);
        BOOST_TEST(difference(device_dx, dx, 1e-6) == "", shape);
      }
}

BOOST_AUTO_TEST_CASE(NaNStaysNaN) {
  EmulatedStream stream(1);
  Tensor x = empty_on(stream, {3}, DType::f32), y = x;
  op.relu(stream, x, y);
  for (int i = 0; i < 3; ++i) BOOST_TEST(std::isnan(at(y, i)));
}

BOOST_AUTO_TEST_SUITE_END()
