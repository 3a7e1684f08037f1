#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const CastOps op = ops::cuda::cast_ops();
const DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Numbers of every size, and what is not a number.
Tensor numbers(int64_t n) {
  Random random(1);
  Tensor t = Tensor::empty({n});
  for (float& x : t.span<float>()) x = std::bit_cast<float>(random.bits32());
  const float special[] = {0.0f,        -0.0f,       65519.0f, 65520.0f, 6e-8f,    2.98e-8f,  1e-8f,
                           1.00390625f, 1.01171875f, 3.39e38f, -3.4e38f, INFINITY, -INFINITY, std::nanf("")};
  for (size_t i = 0; i < std::size(special) && static_cast<int64_t>(i) < n; ++i) t.data<float>()[i] = special[i];
  return t;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cast)

BOOST_AUTO_TEST_CASE(EveryPairOfTypesIsTheCpus) {
  Stream cpu;
  for (int64_t n : {0, 1, 1031})
    for (DType from : kTypes)
      for (DType to : kTypes)
        for (Place place : kPlaces) {
          EmulatedStream stream(1);
          Tensor x = Tensor::empty({n}, from), expected = unwritten({n}, to), y = empty_on(stream, {n}, to, place);
          cpu_ops().cast(cpu, numbers(n), x);
          cpu_ops().cast(cpu, x, expected);
          op.cast(stream, on(stream, x, place), y);
          for (int64_t i = 0; i < n; ++i) {
            const double a = at(y, i), b = at(expected, i);
            if (!(a == b && std::signbit(a) == std::signbit(b)) && !(std::isnan(a) && std::isnan(b)))
              BOOST_ERROR(name_of(from) << " " << at(x, i) << " as " << name_of(to) << " is " << a << ", not " << b);
          }
        }
}

BOOST_AUTO_TEST_SUITE_END()
