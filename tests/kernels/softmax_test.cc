#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

struct Loss {
  Tensor probabilities;
  double sum, correct;
};

Loss cross_entropy(const Tensor& logits, const Tensor& labels) {
  Stream stream;
  Loss loss{unwritten(logits.shape(), logits.dtype()), 0, 0};
  Tensor totals = unwritten({2}, DType::f64);
  op.softmax_cross_entropy(stream, logits, labels, loss.probabilities, totals);
  loss.sum = at(totals, 0);
  loss.correct = at(totals, 1);
  return loss;
}

Tensor labels_for(int64_t n, int64_t classes) {
  Random random(3);
  Tensor labels = Tensor::empty({n}, DType::i32);
  for (int32_t& label : labels.span<int32_t>())
    label = static_cast<int32_t>(random.below(static_cast<uint64_t>(classes)));
  return labels;
}

Tensor row(std::vector<float> values) {
  return Tensor::from<float>(values, {1, static_cast<int64_t>(values.size())});
}

Tensor label(int32_t value) {
  return Tensor::from<int32_t>(std::vector<int32_t>{value}, {1});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(softmax)

BOOST_AUTO_TEST_CASE(LossAndCorrectAnswersAreThoseOfTheDefinition) {
  for (Shape shape : {Shape{1, 1}, Shape{37, 10}, Shape{5, 101}, Shape{0, 10}})
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor logits = exact(1, shape), labels = labels_for(shape[0], shape[1]);
      double sum = 0, correct = 0;
      Tensor expected = logits.clone();
      for (int64_t i = 0; i < shape[0]; ++i) {
        double total = 0, top = -1e300;
        for (int64_t c = 0; c < shape[1]; ++c)
          total += std::exp(at(logits, i * shape[1] + c)), top = std::max(top, at(logits, i * shape[1] + c));
        for (int64_t c = 0; c < shape[1]; ++c)
          expected.data<double>()[i * shape[1] + c] = std::exp(at(logits, i * shape[1] + c)) / total;
        const int64_t answer = i * shape[1] + static_cast<int64_t>(at(labels, i));
        sum -= std::log(at(expected, answer));
        correct += at(logits, answer) == top;
      }
      const Loss loss = cross_entropy(as(dtype, logits), labels);
      BOOST_TEST(difference(loss.probabilities, expected, 1e-6) == "", shape);
      BOOST_TEST(std::abs(loss.sum - sum) <= 1e-6 * (1 + sum), shape);
      BOOST_TEST(loss.correct == correct, shape);
    }
}

BOOST_AUTO_TEST_CASE(TheGradientAgreesWithFiniteDifferencesAndIsASum) {
  Stream stream;
  Tensor logits = normal(1, {7, 5}), dlogits = unwritten({7, 5}, DType::f64);
  const Tensor labels = labels_for(7, 5);
  op.softmax_cross_entropy_gradient(stream, cross_entropy(logits, labels).probabilities, labels, dlogits);
  BOOST_TEST(gradient_difference(dlogits, finite_differences(logits, [&] {
                                   return cross_entropy(logits, labels).sum;
                                 })) == "");
}

BOOST_AUTO_TEST_CASE(TheGradientMayReplaceTheProbabilities) {
  Stream stream;
  const Tensor labels = labels_for(7, 5);
  Loss loss = cross_entropy(exact(1, {7, 5}, DType::f32), labels);
  Tensor dlogits = unwritten({7, 5}, DType::f32);
  op.softmax_cross_entropy_gradient(stream, loss.probabilities, labels, dlogits);
  op.softmax_cross_entropy_gradient(stream, loss.probabilities, labels, loss.probabilities);
  BOOST_TEST(same_bits(loss.probabilities, dlogits));
}

BOOST_AUTO_TEST_CASE(HugeLogitsDoNotOverflow) {
  const Loss sure = cross_entropy(row({3e38f, -3e38f, 0}), label(0));
  BOOST_TEST(sure.sum == 0);
  BOOST_TEST(sure.correct == 1);
  const Loss wrong = cross_entropy(row({1000, 0}), label(1));
  BOOST_TEST(wrong.sum == 1000);
  BOOST_TEST(at(wrong.probabilities, 1) == 0);
}

BOOST_AUTO_TEST_CASE(OfEqualLogitsTheFirstIsTheAnswer) {
  BOOST_TEST(cross_entropy(row({2, 2, 1}), label(0)).correct == 1);
  BOOST_TEST(cross_entropy(row({2, 2, 1}), label(1)).correct == 0);
}

BOOST_AUTO_TEST_CASE(ANaNLogitMakesTheLossNaNAndTheSampleWrong) {
  for (int32_t of : {0, 1, 2})
    for (size_t where : {0, 1, 2}) {
      std::vector<float> logits{1, 2, 3};
      logits[where] = std::nanf("");
      const Loss loss = cross_entropy(row(logits), label(of));
      BOOST_TEST(std::isnan(loss.sum), "label " << of << ", NaN at " << where);
      BOOST_TEST(loss.correct == 0, "label " << of << ", NaN at " << where);
    }
}

BOOST_AUTO_TEST_CASE(ALabelOutsideTheClassesFailsWithItsValues) {
  BOOST_TEST(failure_without("label 3 of sample 0, 3 classes", [] {
               cross_entropy(row({1, 2, 3}), label(3));
             }) == "");
  BOOST_TEST(failure_without("label -1 of sample 0", [] { cross_entropy(row({1, 2, 3}), label(-1)); }) == "");
  BOOST_TEST(failure_without("labels is [1], expected [2]", [] {
               cross_entropy(Tensor::zeros({2, 3}), label(0));
             }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
