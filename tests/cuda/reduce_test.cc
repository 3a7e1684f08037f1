#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const ReduceOps op = ops::cuda::reduce_ops();

}  // namespace

BOOST_AUTO_TEST_SUITE(reduce)

BOOST_AUTO_TEST_CASE(SumsAreTheCpusAndTheSameWhereverATensorBegins) {
  Stream cpu;
  for (auto of : {&ReduceOps::sum, &ReduceOps::sum_of_squares})
    for (DType dtype : {DType::f32, DType::f64})
      for (int64_t n : {0, 1, 1023, 20011}) {
        const Tensor x = exact(1, {n}, dtype);
        Tensor expected = unwritten({1}, DType::f64), first;
        (cpu_ops().*of)(cpu, x, expected);
        for (Place place : kPlaces)
          for (uint64_t order : kOrders) {
            EmulatedStream stream(order);
            Tensor total = empty_on(stream, {1}, DType::f64);
            (op.*of)(stream, on(stream, x, place), total);
            if (!first) first = total;
            BOOST_TEST(difference(total, expected, 1e-13) == "", n);
            BOOST_TEST(same_bits(total, first), n);
          }
      }
}

BOOST_AUTO_TEST_CASE(EveryNonFiniteElementIsCounted) {
  for (DType dtype : {DType::f32, DType::f64}) {
    EmulatedStream stream(1);
    Tensor x = exact(1, {9001}, DType::f64);
    x.data<double>()[0] = std::nan("");
    x.data<double>()[4711] = std::numeric_limits<double>::infinity();
    x.data<double>()[9000] = -std::numeric_limits<double>::infinity();
    Tensor count = empty_on(stream, {1}, DType::f64);
    op.count_non_finite(stream, on(stream, as(dtype, x)), count);
    BOOST_TEST(at(count, 0) == 3);
  }
}

BOOST_AUTO_TEST_SUITE_END()
