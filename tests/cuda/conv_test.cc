#include <boost/test/unit_test.hpp>

#include <tests/support/cuda/on_device.h>
#include <tests/support/window_cases.h>
#include <troupe/kernels/ops/cuda/families.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;
using namespace troupe::test::cuda;

namespace {

const ConvOps op = ops::cuda::conv_ops();

using Case = ConvCase;

const Case kCases[] = {{{1, 1, 1, 1}, {1, 1, 1, 1}, {}},     {{3, 2, 7, 5}, {4, 2, 3, 3}, {1, 1}},
                       {{2, 3, 9, 8}, {5, 3, 3, 2}, {2, 0}}, {{2, 1, 6, 6}, {2, 1, 5, 5}, {1, 3}},
                       {{2, 4, 5, 5}, {3, 4, 1, 1}, {2, 0}}, {{1, 2, 7, 7}, {2, 2, 2, 2}, {3, 1}},
                       {{0, 2, 5, 5}, {3, 2, 3, 3}, {1, 0}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(conv)

BOOST_AUTO_TEST_CASE(ConvolutionsAreTheCpus) {
  Stream cpu;
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64})
      for (Epilogue epilogue : {Epilogue::none, Epilogue::relu})
        for (bool has_bias : {false, true}) {
          EmulatedStream stream(static_cast<uint64_t>(c.x.count()));
          const Tensor x = exact(1, c.x, dtype), w = exact(2, c.w, dtype);
          const Tensor bias = has_bias ? exact(3, {c.w[0]}, dtype) : Tensor{};
          Tensor expected = unwritten(c.y(), dtype), y = empty_on(stream, c.y(), dtype);
          cpu_ops().conv(cpu, x, w, bias, c.geometry, epilogue, expected);
          op.conv(stream, on(stream, x), on(stream, w), has_bias ? on(stream, bias) : Tensor{}, c.geometry, epilogue,
                  y);
          BOOST_TEST(difference(y, expected, 2e-6) == "", c);
        }
}

BOOST_AUTO_TEST_CASE(GradientsAreTheCpus) {
  Stream cpu;
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64})
      for (Write write : {Write::set, Write::add}) {
        EmulatedStream stream(static_cast<uint64_t>(c.x.count()));
        const Tensor x = exact(1, c.x, dtype), w = exact(2, c.w, dtype), dy = exact(3, c.y(), dtype);
        Tensor dx = unwritten(c.x, dtype), dw = exact(4, c.w, dtype), db = exact(5, {c.w[0]}, dtype);
        Tensor device_dx = empty_on(stream, c.x, dtype), device_dw = on(stream, dw), device_db = on(stream, db);
        cpu_ops().conv_input_gradient(cpu, dy, w, c.geometry, dx);
        cpu_ops().conv_weight_gradient(cpu, x, dy, c.geometry, write, dw, db);
        op.conv_input_gradient(stream, on(stream, dy), on(stream, w), c.geometry, device_dx);
        op.conv_weight_gradient(stream, on(stream, x), on(stream, dy), c.geometry, write, device_dw, device_db);
        BOOST_TEST(difference(device_dx, dx, 2e-6) == "", c);
        BOOST_TEST(difference(device_dw, dw, 2e-6) == "", c);
        BOOST_TEST(difference(device_db, db, 2e-6) == "", c);
        Tensor none;
        op.conv_weight_gradient(stream, on(stream, x), on(stream, dy), c.geometry, Write::set, device_dw, none);
        cpu_ops().conv_weight_gradient(cpu, x, dy, c.geometry, Write::set, dw, none);
        BOOST_TEST(difference(device_dw, dw, 2e-6) == "", c);
      }
}

BOOST_AUTO_TEST_SUITE_END()
