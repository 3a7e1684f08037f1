#include <troupe/kernels/ops/cuda/families.h>
#include <troupe/kernels/ops/cuda/tensors.h>
#include <troupe/kernels/ops/cuda/channel_map.cuh>
#include <troupe/kernels/ops/cuda/softmax.cuh>

namespace troupe::ops::cuda {
namespace {

void softmax_cross_entropy(Stream& stream, const Tensor& logits, const Tensor& labels, Tensor& probabilities,
                           Tensor& totals) {
  expect_dims(logits, 2, 2, "logits");
  const int64_t n = logits.shape()[0], classes = logits.shape()[1];
  expect(logits, logits.dtype(), logits.shape(), "logits");
  expect(labels, DType::i32, {n}, "labels");
  expect(probabilities, logits.dtype(), logits.shape(), "probabilities");
  expect(totals, DType::f64, {2}, "totals");
  auto* outcome = reinterpret_cast<double*>(stream.scratch(static_cast<size_t>(2 * n) * sizeof(double)));
  dispatch(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = logits.data<T>();
    T* p = probabilities.data<T>();
    const auto launch = [&](auto width, auto team, unsigned blocks) {
      TROUPE_LAUNCH((softmax_rows<T, decltype(width)::value, decltype(team)::value>), blocks, kBlockThreads, 0, stream,
                    n, classes, x, labels.data<int32_t>(), p, outcome);
    };
    over_rows(n, classes, launch, x, p);
  });
  TROUPE_LAUNCH(sum_outcomes, 2, kBlockThreads, 0, stream, n, outcome, totals.data<double>());
}

void softmax_cross_entropy_gradient(Stream& stream, const Tensor& probabilities, const Tensor& labels,
                                    Tensor& dlogits) {
  expect_dims(probabilities, 2, 2, "probabilities");
  const int64_t n = probabilities.shape()[0], classes = probabilities.shape()[1];
  expect(probabilities, probabilities.dtype(), probabilities.shape(), "probabilities");
  expect(labels, DType::i32, {n}, "labels");
  expect(dlogits, probabilities.dtype(), probabilities.shape(), "dlogits");
  // The row is the channel here, which never comes again.
  const Channels shape(probabilities.reshaped({1, n, classes}), "probabilities");
  dispatch(probabilities.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_channels(stream, shape, SubtractLabel<T>{classes, labels.data<int32_t>()}, dlogits.data<T>(),
                 probabilities.data<T>());
  });
}

}  // namespace

SoftmaxOps softmax_ops() { return {softmax_cross_entropy, softmax_cross_entropy_gradient}; }

}  // namespace troupe::ops::cuda
