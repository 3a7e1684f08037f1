#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();
const int64_t kCounts[] = {0, 1, 7, 8, 1023, 1024, 1025, 5003, 70001};

// What the contract promises for one f32 element: each product and each sum rounded by itself.
float rounded_sum(const std::vector<float>& x, const std::vector<double>& w) {
  volatile float sum = static_cast<float>(w[0]) * x[0];
  for (size_t r = 1; r < x.size(); ++r) {
    const volatile float product = static_cast<float>(w[r]) * x[r];
    sum = sum + product;
  }
  return sum;
}

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

BOOST_AUTO_TEST_CASE(AWeightedSumIsRoundedTermByTermInTheOrderGiven) {
  Stream stream;
  for (size_t ranks : {1, 2, 3, 5})
    for (int64_t n : kCounts) {
      std::vector<Tensor> inputs;
      std::vector<double> weights;
      for (size_t r = 0; r < ranks; ++r) {
        inputs.push_back(exact(r, {n}, DType::f32));
        weights.push_back(1.0 / 3 + static_cast<double>(r));
      }
      Tensor y = unwritten({n}, DType::f32);
      op.weighted_sum(stream, inputs, weights, y);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; ++i) {
        std::vector<float> x;
        for (const Tensor& input : inputs) x.push_back(input.data<float>()[i]);
        wrong += y.data<float>()[i] != rounded_sum(x, weights);
      }
      BOOST_TEST(wrong == 0, ranks << " inputs of " << n);
    }
}

BOOST_AUTO_TEST_CASE(AWeightedSumMayReplaceAnyInput) {
  Stream stream;
  for (size_t ranks : {1, 2, 4})
    for (size_t replaced = 0; replaced < ranks; ++replaced) {
      std::vector<Tensor> inputs;
      for (size_t r = 0; r < ranks; ++r) inputs.push_back(exact(r, {3001}, DType::f32));
      const std::vector<double> weights(ranks, 0.3);
      Tensor y = unwritten({3001}, DType::f32);
      op.weighted_sum(stream, inputs, weights, y);
      op.weighted_sum(stream, inputs, weights, inputs[replaced]);
      BOOST_TEST(same_bits(inputs[replaced], y), ranks << " inputs, replacing " << replaced);
    }
}

BOOST_AUTO_TEST_CASE(AWeightedSumDoesNotDependOnHowTensorsAreCut) {
  Stream one, two({}, 2);
  const std::vector<Tensor> inputs{exact(1, {90001}, DType::f32), exact(2, {90001}, DType::f32),
                                   exact(3, {90001}, DType::f32)};
  const std::vector<double> weights{0.1, 0.7, 0.2};
  Tensor whole = unwritten({90001}, DType::f32), threaded = whole.clone(), cut = whole.clone();
  op.weighted_sum(one, inputs, weights, whole);
  op.weighted_sum(two, inputs, weights, threaded);
  for (int64_t begin = 0; begin < 90001; begin += 12347) {
    const Shape part{std::min<int64_t>(12347, 90001 - begin)};
    std::vector<Tensor> parts;
    for (const Tensor& input : inputs) parts.push_back(input.view(begin, part));
    Tensor to = cut.view(begin, part);
    op.weighted_sum(one, parts, weights, to);
  }
  BOOST_TEST(same_bits(threaded, whole));
  BOOST_TEST(same_bits(cut, whole));
}

BOOST_AUTO_TEST_CASE(CountsThatDifferFailWithTheirValues) {
  Stream stream;
  Tensor y = Tensor::empty({3});
  const std::vector<Tensor> inputs{Tensor::zeros({3}), Tensor::zeros({4})};
  const std::vector<double> one{1}, two{1, 1};
  BOOST_TEST(failure_without("b is [4], expected as many elements as [3]",
                             [&] { op.add(stream, inputs[0], inputs[1], y); }) == "");
  BOOST_TEST(failure_without("x is F64, expected F32",
                             [&] { op.axpy(stream, 1, Tensor::zeros({3}, DType::f64), y); }) == "");
  BOOST_TEST(failure_without("input is [4]", [&] { op.weighted_sum(stream, inputs, two, y); }) == "");
  BOOST_TEST(failure_without("2 inputs, 1 weights", [&] { op.weighted_sum(stream, inputs, one, y); }) == "");
  BOOST_TEST(failure_without("0 inputs, 0 weights", [&] { op.weighted_sum(stream, {}, {}, y); }) == "");
  Tensor none;
  BOOST_TEST(failure_without("y is an empty tensor", [&] { op.fill(stream, 1, none); }) == "");
  BOOST_TEST(failure_without("y is an empty tensor", [&] { op.scale(stream, 1, none); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
