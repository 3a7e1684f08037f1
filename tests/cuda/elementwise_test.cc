#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const ElementwiseOps op = ops::cuda::elementwise_ops();
const int64_t kCounts[] = {0, 1, 3, 1027, 4099};

// Runs body(dtype, count, place, stream) for all of them.
template <class Body>
void each_case(Body body) {
  for (DType dtype : {DType::f32, DType::f64})
    for (int64_t n : kCounts)
      for (Place place : kPlaces)
        for (uint64_t order : kOrders) {
          EmulatedStream stream(order);
          body(dtype, n, place, stream);
        }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(elementwise)

BOOST_AUTO_TEST_CASE(FillWritesEveryElementAndNoOther) {
  each_case([](DType dtype, int64_t n, Place place, EmulatedStream& stream) {
    Tensor y = empty_on(stream, {n}, dtype, place);
    op.fill(stream, 0.1, y);
    const double expected = dtype == DType::f32 ? static_cast<double>(0.1f) : 0.1;
    for (int64_t i = 0; i < n; ++i) BOOST_TEST(at(y, i) == expected);
  });
}

BOOST_AUTO_TEST_CASE(SumsAndProductsHaveTheCpusBits) {
  Stream cpu;
  each_case([&](DType dtype, int64_t n, Place place, EmulatedStream& stream) {
    const Tensor a = exact(1, {n}, dtype), b = exact(2, {n}, dtype);
    Tensor sum = unwritten({n}, dtype), y = b.clone();
    cpu_ops().add(cpu, a, b, sum);
    cpu_ops().axpy(cpu, 0.3, a, y);
    cpu_ops().scale(cpu, -1.7, y);
    const Tensor da = on(stream, a, place);
    Tensor dsum = empty_on(stream, {n}, dtype), dy = on(stream, b, place);
    op.add(stream, da, dy, dsum);
    op.axpy(stream, 0.3, da, dy);
    op.scale(stream, -1.7, dy);
    BOOST_TEST(same_bits(dsum, sum));
    BOOST_TEST(same_bits(dy, y));
  });
}

BOOST_AUTO_TEST_CASE(ASumMayBeWrittenOverASummand) {
  EmulatedStream stream(1);
  const Tensor a = on(stream, exact(1, {1027}, DType::f32));
  Tensor twice = on(stream, a), expected = empty_on(stream, {1027}, DType::f32);
  op.add(stream, a, twice, expected);
  op.add(stream, a, twice, twice);
  BOOST_TEST(same_bits(twice, expected));
}

BOOST_AUTO_TEST_CASE(CopyTakesAnyDtypeAndShape) {
  EmulatedStream stream(1);
  for (DType dtype : {DType::u8, DType::i32, DType::bf16, DType::f64}) {
    const Tensor x = on(stream, as(DType::f64, exact(1, {3, 7})));
    const Tensor bytes(x.buffer(), 0, {3, 7}, dtype);
    Tensor y = empty_on(stream, {21}, dtype);
    op.copy(stream, bytes, y);
    BOOST_TEST(same_bits(y, bytes));
  }
}

BOOST_AUTO_TEST_CASE(ATensorOfAnotherCountOrDeviceFailsWithItsValues) {
  EmulatedStream stream(1);
  Tensor y = empty_on(stream, {4}, DType::f32), host = Tensor::empty({4});
  BOOST_TEST(failure_without("expected as many elements as [4]",
                             [&] { op.add(stream, empty_on(stream, {3}, DType::f32), y, y); }) == "");
  BOOST_TEST(failure_without("y is not in a GPU's memory", [&] { op.fill(stream, 0, host); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
