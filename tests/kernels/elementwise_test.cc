#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
const int64_t kCounts[] = {0, 1, 7, 8, 1023, 1024, 1025, 5003, 70001};

}  // namespace

BOOST_AUTO_TEST_SUITE(elementwise)

BOOST_AUTO_TEST_CASE(FillCopyAddScaleAndAxpyDoWhatTheySay) {
  for (int threads : {1, 2}) {
    Stream stream({}, threads);
    for (DType dtype : {DType::f32, DType::f64})
      for (int64_t n : kCounts) {
        const Tensor a = exact(1, {n}, dtype), b = exact(2, {n}, dtype);
        Tensor filled = unwritten({n}, dtype), copied = filled.clone(), sum = filled.clone(),
               scaled = a.clone(), moved = b.clone();
        op.fill(stream, 2.5, filled);
        op.copy(stream, a, copied);
        op.add(stream, a, b, sum);
        op.scale(stream, 0.5, scaled);
        op.axpy(stream, 0.25, a, moved);
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; ++i)
          wrong += at(filled, i) != 2.5 || std::abs(at(sum, i) - (at(a, i) + at(b, i))) > 1e-6 ||
                   at(scaled, i) != at(a, i) / 2 || std::abs(at(moved, i) - (at(a, i) / 4 + at(b, i))) > 1e-6;
        BOOST_TEST(wrong == 0, n);
        BOOST_TEST(same_bits(copied, a), n);
      }
  }
}

BOOST_AUTO_TEST_CASE(AddMayWriteOverEitherTerm) {
  Stream stream;
  const Tensor a = exact(1, {1001}, DType::f32), b = exact(2, {1001}, DType::f32);
  Tensor sum = a.clone(), over_a = a.clone(), over_b = b.clone();
  op.add(stream, a, b, sum);
  op.add(stream, over_a, b, over_a);
  op.add(stream, a, over_b, over_b);
  BOOST_TEST(same_bits(over_a, sum));
  BOOST_TEST(same_bits(over_b, sum));
}

BOOST_AUTO_TEST_CASE(CopyTakesAnyType) {
  Stream stream;
  const Tensor ids = Tensor::from<int32_t>(std::vector<int32_t>{-1, 2, 3}, {3});
  Tensor copied = Tensor::zeros({3}, DType::i32);
  op.copy(stream, ids, copied);
  BOOST_TEST(same_bits(copied, ids));
}

BOOST_AUTO_TEST_CASE(AxpyRoundsItsProductBeforeItAdds) {
  Stream stream;
  for (int64_t n : kCounts) {
    const Tensor x = exact(1, {n}, DType::f32), before = exact(2, {n}, DType::f32);
    Tensor y = before.clone();
    op.axpy(stream, 1.0 / 3, x, y);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      const volatile float product = static_cast<float>(1.0 / 3) * x.data<float>()[i];
      const volatile float sum = before.data<float>()[i] + product;
      wrong += y.data<float>()[i] != sum;
    }
    BOOST_TEST(wrong == 0, n);
  }
}

BOOST_AUTO_TEST_CASE(CountsThatDifferFailWithTheirValues) {
  Stream stream;
  Tensor y = Tensor::empty({3});
  const std::vector<Tensor> inputs{Tensor::zeros({3}), Tensor::zeros({4})};
  BOOST_TEST(failure_without("b is [4], expected as many elements as [3]",
                             [&] { op.add(stream, inputs[0], inputs[1], y); }) == "");
  BOOST_TEST(failure_without("x is F64, expected F32",
                             [&] { op.axpy(stream, 1, Tensor::zeros({3}, DType::f64), y); }) == "");
  Tensor none;
  BOOST_TEST(failure_without("y is an empty tensor", [&] { op.fill(stream, 1, none); }) == "");
  BOOST_TEST(failure_without("y is an empty tensor", [&] { op.scale(stream, 1, none); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
