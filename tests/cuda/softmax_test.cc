#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const SoftmaxOps op = ops::cuda::softmax_ops();
// Rows of a warp and of a block, within registers and beyond, of whole packs and not.
const Shape kShapes[] = {{0, 10}, {1, 1}, {19, 10}, {9, 64}, {3, 1023}, {2, 1500}, {2, 1501}, {1, 8200}, {1, 8195}};

Tensor labels_for(const Shape& shape) {
  Random random(3);
  Tensor labels = Tensor::empty({shape[0]}, DType::i32);
  for (int32_t& label : labels.span<int32_t>())
    label = static_cast<int32_t>(random.below(static_cast<uint64_t>(shape[1])));
  return labels;
}

struct Losses {
  Tensor probabilities, totals;
};

Losses on_cpu(const Tensor& logits, const Tensor& labels) {
  Stream cpu;
  Losses r{unwritten(logits.shape(), logits.dtype()), unwritten({2}, DType::f64)};
  cpu_ops().softmax_cross_entropy(cpu, logits, labels, r.probabilities, r.totals);
  return r;
}

Losses on_gpu(uint64_t order, Place place, const Tensor& logits, const Tensor& labels) {
  EmulatedStream stream(order);
  Losses r{on(stream, logits, place), empty_on(stream, {2}, DType::f64)};
  const Tensor device_labels = on(stream, labels);
  if (order % 2) {  // in place
    op.softmax_cross_entropy(stream, r.probabilities, device_labels, r.probabilities, r.totals);
  } else {
    const Tensor x = r.probabilities;
    r.probabilities = empty_on(stream, logits.shape(), logits.dtype(), place);
    op.softmax_cross_entropy(stream, x, device_labels, r.probabilities, r.totals);
  }
  return r;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(softmax)

BOOST_AUTO_TEST_CASE(ProbabilitiesLossAndHitsAreTheCpus) {
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes) {
      const Tensor logits = exact(1, shape, dtype), labels = labels_for(shape);
      const Losses expected = on_cpu(logits, labels);
      for (Place place : kPlaces)
        for (uint64_t order : kOrders) {
          const Losses actual = on_gpu(order, place, logits, labels);
          BOOST_TEST(difference(actual.probabilities, expected.probabilities, 1e-6) == "", shape);
          BOOST_TEST(difference(actual.totals, expected.totals, 1e-6) == "", shape);
        }
    }
}

BOOST_AUTO_TEST_CASE(OfEqualLogitsTheFirstCounts) {
  Tensor logits = Tensor::zeros({2, 40}), labels = Tensor::from<int32_t>(std::vector<int32_t>{7, 8}, {2});
  for (int i : {7, 8, 47, 48}) logits.data<float>()[i] = 5;
  BOOST_TEST(at(on_gpu(1, Place::aligned, logits, labels).totals, 1) == 1);
}

BOOST_AUTO_TEST_CASE(LogitsOfAnySizeDoNotOverflow) {
  Tensor logits = exact(1, {3, 50}, DType::f32);
  for (float& x : logits.span<float>()) x *= 1e30f;
  const Tensor labels = Tensor::from<int32_t>(std::vector<int32_t>{1, 2, 3}, {3});
  BOOST_TEST(difference(on_gpu(2, Place::aligned, logits, labels).probabilities, on_cpu(logits, labels).probabilities,
                        1e-6) == "");
}

BOOST_AUTO_TEST_CASE(ANaNLogitMakesTheLossNaNAndTheSampleWrong) {
  Tensor logits = Tensor::zeros({1, 5});
  logits.data<float>()[3] = std::nanf("");
  const Losses r = on_gpu(1, Place::aligned, logits, Tensor::zeros({1}, DType::i32));
  BOOST_TEST(std::isnan(at(r.totals, 0)));
  BOOST_TEST(at(r.totals, 1) == 0);
}

BOOST_AUTO_TEST_CASE(TheGradientIsTheCpus) {
  Stream cpu;
  for (DType dtype : {DType::f32, DType::f64})
    for (const Shape& shape : kShapes)
      for (Place place : kPlaces) {
        EmulatedStream stream(5);
        const Tensor p = exact(1, shape, dtype), labels = labels_for(shape);
        Tensor expected = unwritten(shape, dtype), d = empty_on(stream, shape, dtype, place);
        Tensor in_place = on(stream, p, place);
        cpu_ops().softmax_cross_entropy_gradient(cpu, p, labels, expected);
        op.softmax_cross_entropy_gradient(stream, on(stream, p, place), on(stream, labels), d);
        op.softmax_cross_entropy_gradient(stream, in_place, on(stream, labels), in_place);
        BOOST_TEST(same_bits(d, expected), shape);
        BOOST_TEST(same_bits(in_place, expected), shape);
      }
}

BOOST_AUTO_TEST_CASE(ALabelOutOfRangeStopsTheKernel) {
  for (int32_t label : {-1, 5}) {
    const Tensor logits = Tensor::zeros({1, 5}), labels = Tensor::from<int32_t>(std::vector<int32_t>{label}, {1});
    BOOST_CHECK_THROW(on_gpu(1, Place::aligned, logits, labels), KernelFault);
    EmulatedStream stream(1);
    Tensor d = on(stream, logits);
    BOOST_CHECK_THROW(op.softmax_cross_entropy_gradient(stream, d, on(stream, labels), d), KernelFault);
  }
}

BOOST_AUTO_TEST_SUITE_END()
