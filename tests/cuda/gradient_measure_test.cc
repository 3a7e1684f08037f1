#include <boost/test/unit_test.hpp>

#include <limits>

#include <tests/support/cuda/on_device.h>
#include <troupe/kernels/nn/gradient_measure.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

BOOST_AUTO_TEST_SUITE(gradient_measure)

namespace {

const LayerSpec kLayer{
    "norm", 7001, {{"w", {5003}, 0}, {"m", {1001}, 5003, ParamKind::statistic}, {"b", {997}, 6004, ParamKind::bias}}};

GradientMeasure by_cuda(const Tensor& gradient, bool norm, uint64_t order) {
  Ops ops{};
  static_cast<ReduceOps&>(ops) = ops::cuda::reduce_ops();
  EmulatedStream stream(order);
  const auto ranges = ranges_to_measure(kLayer, kLayer.count, norm);
  return measure_of(submit_measure(stream, ops, on(stream, gradient), ranges), ranges);
}

GradientMeasure by_cpu(const Tensor& gradient, bool norm) {
  Stream stream;
  const auto ranges = ranges_to_measure(kLayer, kLayer.count, norm);
  return measure_of(submit_measure(stream, cpu_ops(), gradient, ranges), ranges);
}

}  // namespace

BOOST_AUTO_TEST_CASE(TheKernelsNormIsTheCpusToTwelveDigits) {
  Tensor gradient = exact(1, {kLayer.count}, DType::f32);
  for (float& x : gradient.span<float>()) x *= 0.3f;  // sums are no longer exact
  for (uint64_t order : kOrders)
    BOOST_TEST(by_cuda(gradient, true, order).sum_of_squares == by_cpu(gradient, true).sum_of_squares,
               boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(TheyCallTheSameGradientsFinite) {
  for (const bool norm : {false, true})
    for (const int64_t at : {int64_t{-1}, int64_t{0}, int64_t{5500}, kLayer.count - 1})
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        Tensor gradient = exact(1, {kLayer.count}, DType::f32);
        gradient.data<float>()[7] = std::numeric_limits<float>::max();
        if (at >= 0) gradient.data<float>()[at] = bad;
        BOOST_TEST(by_cuda(gradient, norm, 1).finite == (at < 0), at);
        BOOST_TEST(by_cpu(gradient, norm).finite == (at < 0), at);
      }
}

BOOST_AUTO_TEST_SUITE_END()
