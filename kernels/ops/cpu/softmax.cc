#include <cmath>

#include <troupe/kernels/ops/cpu/families.h>
#include <troupe/kernels/ops/cpu/tensors.h>
#include <troupe/kernels/ops/cpu/vector_math.h>

namespace troupe::ops::cpu {
namespace {

void expect_labels(const Tensor& labels, int64_t n, int64_t classes) {
  expect(labels, DType::i32, {n}, "labels");
  const int32_t* label = labels.data<int32_t>();
  for (int64_t i = 0; i < n; ++i)
    TROUPE_CHECK(label[i] >= 0 && label[i] < classes, "label ", label[i], " of sample ", i, ", ", classes,
                 " classes");
}

struct Sample {
  double loss;
  bool correct;
};

// One row: `p` becomes the softmax of `x`; p may be x.
template <class T>
Sample softmax_row(const T* x, int64_t classes, int32_t label, T* p) {
  int64_t best = 0;
  for (int64_t c = 1; c < classes; ++c)
    if (x[c] > x[best] || x[best] != x[best]) best = c;
  const T top = x[best], of_label = x[label];
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) p[c] = exp_of(x[c] - top);
  for (int64_t c = 0; c < classes; ++c) sum += p[c];
  const T scale = static_cast<T>(1 / sum);
  for (int64_t c = 0; c < classes; ++c) p[c] *= scale;
  return {std::log(sum) - (static_cast<double>(of_label) - static_cast<double>(top)),
          best == label && sum == sum};
}

void softmax_cross_entropy(Stream&, const Tensor& logits, const Tensor& labels, Tensor& probabilities,
                           Tensor& totals) {
  expect_dims(logits, 2, 2, "logits");
  const int64_t n = logits.shape()[0], classes = logits.shape()[1];
  expect_labels(labels, n, classes);
  expect(probabilities, logits.dtype(), logits.shape(), "probabilities");
  expect(totals, DType::f64, {2}, "totals");
  double loss = 0, correct = 0;
  dispatch(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = logits.data<T>();
    const int32_t* label = labels.data<int32_t>();
    T* p = probabilities.data<T>();
    for (int64_t i = 0; i < n; ++i) {
      const Sample sample = softmax_row(x + i * classes, classes, label[i], p + i * classes);
      loss += sample.loss;
      correct += sample.correct;
    }
  });
  totals.data<double>()[0] = loss;
  totals.data<double>()[1] = correct;
}

void softmax_cross_entropy_gradient(Stream&, const Tensor& probabilities, const Tensor& labels,
                                    Tensor& dlogits) {
  expect_dims(probabilities, 2, 2, "probabilities");
  const int64_t n = probabilities.shape()[0], classes = probabilities.shape()[1];
  expect_labels(labels, n, classes);
  expect(dlogits, probabilities.dtype(), probabilities.shape(), "dlogits");
  dispatch(probabilities.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int32_t* label = labels.data<int32_t>();
    T* d = dlogits.data<T>();
    if (d != probabilities.data<T>()) std::memcpy(d, probabilities.raw(), probabilities.bytes());
    for (int64_t i = 0; i < n; ++i) d[i * classes + label[i]] -= T{1};
  });
}

}  // namespace

SoftmaxOps softmax_ops() {
  return {softmax_cross_entropy, softmax_cross_entropy_gradient};
}

}  // namespace troupe::ops::cpu
