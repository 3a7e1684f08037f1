#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <tests/support/window_cases.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const PoolOps op = ops::cuda::pool_ops();

using Case = PoolCase;

const Case kCases[] = {{{1, 1, 2, 2}, {}},        {{2, 3, 14, 13}, {}},      {{2, 2, 9, 7}, {3, 2, 1}},
                       {{1, 3, 6, 5}, {3, 1, 1}}, {{1, 1, 5, 5}, {2, 3, 0}}, {{2, 1, 5, 6}, {5, 1, 4}},
                       {{0, 2, 4, 4}, {}}};

// body(case, dtype, stream) for all cases, under several orders.
template <class Body>
void each_case(Body body) {
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64})
      for (uint64_t order : kOrders) {
        EmulatedStream stream(order);
        body(c, dtype, stream);
      }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(MaxPoolAndItsGradientAreTheCpus) {
  Stream cpu;
  each_case([&](const Case& c, DType dtype, EmulatedStream& stream) {
    Tensor x = exact(1, c.x, DType::f64);
    for (double& v : x.span<double>()) v = std::round(2 * v);  // few values: many ties
    x = as(dtype, x);
    const Tensor dy = exact(2, c.y(), dtype);
    Tensor y = unwritten(c.y(), dtype), choice = unwritten(c.y(), DType::u8), dx = unwritten(c.x, dtype);
    cpu_ops().max_pool(cpu, x, c.geometry, y, choice);
    cpu_ops().max_pool_gradient(cpu, dy, choice, c.geometry, dx);
    Tensor device_y = empty_on(stream, c.y(), dtype), device_choice = empty_on(stream, c.y(), DType::u8);
    Tensor device_dx = empty_on(stream, c.x, dtype);
    op.max_pool(stream, on(stream, x), c.geometry, device_y, device_choice);
    op.max_pool_gradient(stream, on(stream, dy), device_choice, c.geometry, device_dx);
    BOOST_TEST(same_bits(device_y, y), c);
    BOOST_TEST(same_bits(device_choice, choice), c);
    BOOST_TEST(difference(device_dx, dx, 0) == "", c);
  });
}

BOOST_AUTO_TEST_CASE(NaNWinsWhereverItLies) {
  for (int64_t i = 0; i < 4; ++i) {
    EmulatedStream stream(1);
    Tensor x = Tensor::from<float>(std::vector<float>{1, 2, 3, 4}, {1, 1, 2, 2});
    x.data<float>()[i] = std::nanf("");
    Tensor y = empty_on(stream, {1, 1, 1, 1}, DType::f32), choice = empty_on(stream, {1, 1, 1, 1}, DType::u8);
    op.max_pool(stream, on(stream, x), {}, y, choice);
    BOOST_TEST(std::isnan(at(y, 0)));
    BOOST_TEST(at(choice, 0) == static_cast<double>(i));
  }
}

BOOST_AUTO_TEST_CASE(AvgPoolAndItsGradientAreTheCpus) {
  Stream cpu;
  each_case([&](const Case& c, DType dtype, EmulatedStream& stream) {
    const Tensor x = exact(1, c.x, dtype), dy = exact(2, c.y(), dtype);
    Tensor y = unwritten(c.y(), dtype), dx = unwritten(c.x, dtype);
    cpu_ops().avg_pool(cpu, x, c.geometry, y);
    cpu_ops().avg_pool_gradient(cpu, dy, c.geometry, dx);
    Tensor device_y = empty_on(stream, c.y(), dtype), device_dx = empty_on(stream, c.x, dtype);
    op.avg_pool(stream, on(stream, x), c.geometry, device_y);
    op.avg_pool_gradient(stream, on(stream, dy), c.geometry, device_dx);
    BOOST_TEST(difference(device_y, y, 1e-6) == "", c);
    BOOST_TEST(difference(device_dx, dx, 1e-6) == "", c);
  });
}

BOOST_AUTO_TEST_CASE(GlobalAveragePoolAndItsGradientAreTheCpus) {
  Stream cpu;
  for (const Shape& shape : {Shape{2, 3, 7, 5}, Shape{0, 3, 2, 2}, Shape{1, 1, 8, 8}, Shape{2, 1, 37, 41}})
    for (DType dtype : {DType::f32, DType::f64})
      for (uint64_t order : kOrders) {
        EmulatedStream stream(order);
        const Shape pooled{shape[0], shape[1]};
        const Tensor x = exact(1, shape, dtype), dy = exact(2, pooled, dtype);
        Tensor y = unwritten(pooled, dtype), dx = unwritten(shape, dtype);
        cpu_ops().global_avg_pool(cpu, x, y);
        cpu_ops().global_avg_pool_gradient(cpu, dy, dx);
        Tensor device_y = empty_on(stream, pooled, dtype), device_dx = empty_on(stream, shape, dtype);
        op.global_avg_pool(stream, on(stream, x), device_y);
        op.global_avg_pool_gradient(stream, on(stream, dy), device_dx);
        BOOST_TEST(difference(device_y, y, 1e-6) == "", shape);
        BOOST_TEST(same_bits(device_dx, dx), shape);
      }
}

BOOST_AUTO_TEST_SUITE_END()
