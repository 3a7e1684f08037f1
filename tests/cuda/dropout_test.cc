#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const DropoutOps op = ops::cuda::dropout_ops();

}  // namespace

BOOST_AUTO_TEST_SUITE(dropout)

BOOST_AUTO_TEST_CASE(TheNumbersAreTheCpusWhereverATensorBegins) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (int64_t n : {0, 1, 5, 1031})
      for (int64_t first : {int64_t{0}, int64_t{3}, int64_t{4}, (int64_t{1} << 34) + 2})
        for (Place place : kPlaces) {
          EmulatedStream stream(1);
          const Tensor x = exact(1, {n}, dtype);
          Tensor expected = unwritten({n}, dtype), y = empty_on(stream, {n}, dtype, place),
                 in_place = on(stream, x, place);
          cpu_ops().dropout(cpu, x, 0.3, 0x123456789abcdef, first, expected);
          op.dropout(stream, on(stream, x, place), 0.3, 0x123456789abcdef, first, y);
          op.dropout(stream, in_place, 0.3, 0x123456789abcdef, first, in_place);
          BOOST_TEST(same_bits(y, expected), n << " from " << first);
          BOOST_TEST(same_bits(in_place, expected), n << " from " << first);
        }
}

BOOST_AUTO_TEST_SUITE_END()
