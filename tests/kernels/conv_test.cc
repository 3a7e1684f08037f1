#include <boost/test/unit_test.hpp>

#include <tests/support/ops.h>
#include <tests/support/window_cases.h>

using namespace troupe;
using namespace troupe::ops;
using namespace troupe::test;

namespace {

const Ops& op = cpu_ops();

using Case = ConvCase;

// One channel runs as patches times weights, several in f32 as blocked kernels: both meet every kind of edge. The last
// case is one for Winograd's algorithm, with tiles that stick out.
const Case kCases[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},          {{2, 1, 9, 7}, {3, 1, 3, 3}, {1, 1}},
    {{3, 1, 10, 11}, {5, 1, 5, 3}, {2, 2}},    {{2, 3, 8, 8}, {4, 3, 3, 3}, {1, 1}},
    {{1, 5, 7, 9}, {17, 5, 3, 3}, {2, 1}},     {{2, 16, 6, 6}, {19, 16, 1, 1}, {2, 0}},
    {{3, 33, 5, 6}, {7, 33, 3, 2}, {1, 0}},    {{2, 2, 11, 8}, {3, 2, 3, 3}, {3, 1}},
    {{1, 16, 14, 14}, {32, 16, 3, 3}, {1, 1}}, {{2, 1, 2, 2}, {2, 1, 1, 1}, {1, 3}},
    {{2, 32, 7, 7}, {48, 32, 3, 3}, {2, 1}},   {{32, 32, 5, 6}, {48, 32, 3, 3}, {1, 1}},
};

// The definition in kernels/ops/conv.h, word by word.
Tensor convolved(const Case& c, const Tensor& x, const Tensor& w, const Tensor& bias) {
  Tensor y = Tensor::empty(c.y(), DType::f64);
  const auto [stride, padding] = c.geometry;
  int64_t at_y = 0;
  for (int64_t n = 0; n < y.shape()[0]; ++n)
    for (int64_t o = 0; o < y.shape()[1]; ++o)
      for (int64_t i = 0; i < y.shape()[2]; ++i)
        for (int64_t j = 0; j < y.shape()[3]; ++j) {
          double sum = bias ? at(bias, o) : 0;
          for (int64_t k = 0; k < c.w.count() / c.w[0]; ++k) {
            const int64_t channel = k / (c.w[2] * c.w[3]), p = k / c.w[3] % c.w[2], q = k % c.w[3];
            const int64_t row = i * stride + p - padding, column = j * stride + q - padding;
            if (row < 0 || row >= c.x[2] || column < 0 || column >= c.x[3]) continue;
            sum += at(x, ((n * c.x[1] + channel) * c.x[2] + row) * c.x[3] + column) *
                   at(w, o * (c.w.count() / c.w[0]) + k);
          }
          y.data<double>()[at_y++] = sum;
        }
  return y;
}

struct Gradients {
  Tensor dx, dw, dbias;
};

Gradients gradients(Stream& stream, DType dtype, const Case& c, const Tensor& x, const Tensor& w,
                    const Tensor& dy) {
  Gradients g{unwritten(c.x, dtype), unwritten(c.w, dtype), unwritten({c.w[0]}, dtype)};
  op.conv_input_gradient(stream, as(dtype, dy), as(dtype, w), c.geometry, g.dx);
  op.conv_weight_gradient(stream, as(dtype, x), as(dtype, dy), c.geometry, Write::set, g.dw, g.dbias);
  return g;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conv)

BOOST_AUTO_TEST_CASE(ForwardIsTheSumOfTheDefinition) {
  Stream stream;
  for (const Case& c : kCases) {
    const Tensor x = exact(1, c.x), w = exact(2, c.w), bias = exact(3, {c.w[0]});
    for (const Tensor& b : {bias, Tensor{}})
      for (DType dtype : {DType::f32, DType::f64}) {
        Tensor y = unwritten(c.y(), dtype);
        op.conv(stream, as(dtype, x), as(dtype, w), b ? as(dtype, b) : b, c.geometry, Epilogue::none, y);
        BOOST_TEST(difference(y, convolved(c, x, w, b), dtype == DType::f32 ? 5e-6 : 1e-13) == "", c);
      }
  }
}

BOOST_AUTO_TEST_CASE(TheReluEpilogueIsTheReluOfTheResult) {
  Stream stream;
  for (const Case& c : kCases) {
    const Tensor x = exact(1, c.x, DType::f32), w = exact(2, c.w, DType::f32),
                 bias = exact(3, {c.w[0]}, DType::f32);
    for (const Tensor& b : {bias, Tensor{}}) {
      Tensor y = unwritten(c.y(), DType::f32), plain = unwritten(c.y(), DType::f32);
      op.conv(stream, x, w, b, c.geometry, Epilogue::none, plain);
      op.conv(stream, x, w, b, c.geometry, Epilogue::relu, y);
      op.relu(stream, plain, plain);
      BOOST_TEST(same_bits(y, plain), c);
    }
  }
}

BOOST_AUTO_TEST_CASE(AGeluEpilogueIsTheGeluOfTheResult) {
  Stream stream;
  for (const Case& c : kCases) {
    const Tensor x = exact(1, c.x, DType::f32), w = exact(2, c.w, DType::f32), b = exact(3, {c.w[0]}, DType::f32);
    for (Epilogue gelu : {Epilogue::gelu, Epilogue::gelu_tanh}) {
      Tensor y = unwritten(c.y(), DType::f32), plain = unwritten(c.y(), DType::f32);
      op.conv(stream, x, w, b, c.geometry, Epilogue::none, plain);
      op.conv(stream, x, w, b, c.geometry, gelu, y);
      (gelu == Epilogue::gelu ? op.gelu : op.gelu_tanh)(stream, plain, plain);
      BOOST_TEST(same_bits(y, plain), c);
    }
  }
}

BOOST_AUTO_TEST_CASE(TheReluEpilogueKeepsNaN) {
  Stream stream;
  for (int64_t channels : {1, 4}) {
    Tensor x = exact(1, {1, channels, 4, 4}, DType::f32), w = exact(2, {2, channels, 3, 3}, DType::f32);
    x.data<float>()[5] = std::nanf("");
    Tensor y = Tensor::zeros({1, 2, 4, 4});
    op.conv(stream, x, w, Tensor{}, {1, 1}, Epilogue::relu, y);
    BOOST_TEST(std::isnan(at(y, 5)), channels << " channels");
  }
}

BOOST_AUTO_TEST_CASE(GradientsAgreeWithFiniteDifferences) {
  Stream stream;
  for (const Case& c : {Case{{2, 2, 5, 4}, {3, 2, 3, 3}, {1, 1}}, Case{{1, 3, 7, 6}, {2, 3, 3, 2}, {2, 1}}}) {
    Tensor x = normal(1, c.x), w = normal(2, c.w), bias = normal(3, {c.w[0]}), dy = normal(4, c.y());
    const auto loss = [&] {
      Tensor y = Tensor::empty(c.y(), DType::f64);
      op.conv(stream, x, w, bias, c.geometry, Epilogue::none, y);
      return dot(y, dy);
    };
    const Gradients g = gradients(stream, DType::f64, c, x, w, dy);
    BOOST_TEST(gradient_difference(g.dx, finite_differences(x, loss)) == "", c);
    BOOST_TEST(gradient_difference(g.dw, finite_differences(w, loss)) == "", c);
    BOOST_TEST(gradient_difference(g.dbias, finite_differences(bias, loss)) == "", c);
  }
}

BOOST_AUTO_TEST_CASE(FloatGradientsAgreeWithDouble) {
  for (int threads : {1, 2}) {
    Stream stream({}, threads);
    for (const Case& c : kCases) {
      const Tensor x = exact(1, c.x), w = exact(2, c.w), dy = exact(3, c.y());
      const Gradients f = gradients(stream, DType::f32, c, x, w, dy),
                      d = gradients(stream, DType::f64, c, x, w, dy);
      BOOST_TEST(difference(f.dx, d.dx, 5e-6) == "", c);
      BOOST_TEST(difference(f.dw, d.dw, 5e-6) == "", c);
      BOOST_TEST(difference(f.dbias, d.dbias, 5e-6) == "", c);
    }
  }
}

BOOST_AUTO_TEST_CASE(WriteAddAddsToTheWeightGradient) {
  Stream stream;
  for (const Case& c : kCases)
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = exact(1, c.x, dtype), w = exact(2, c.w, dtype), dy = exact(3, c.y(), dtype);
      const Gradients once = gradients(stream, dtype, c, x, w, dy);
      Tensor dw = once.dw.clone(), dbias = once.dbias.clone(), none;
      op.conv_weight_gradient(stream, x, dy, c.geometry, Write::add, dw, dbias);
      op.scale(stream, 0.5, dw);
      op.scale(stream, 0.5, dbias);
      BOOST_TEST(difference(dw, once.dw, 1e-6) == "", c);
      BOOST_TEST(difference(dbias, once.dbias, 1e-6) == "", c);
      op.conv_weight_gradient(stream, x, dy, c.geometry, Write::set, dw, none);
      BOOST_TEST(difference(dw, once.dw, 1e-6) == "", "without a bias: " << c);
    }
}

BOOST_AUTO_TEST_CASE(AnEmptyBatchGivesZeroGradients) {
  Stream stream;
  for (int64_t channels : {1, 3}) {
    const Case c{{0, channels, 6, 6}, {4, channels, 3, 3}, {}};
    const Gradients g =
        gradients(stream, DType::f32, c, Tensor::empty(c.x), Tensor::zeros(c.w), Tensor::empty(c.y()));
    BOOST_TEST(dot(g.dw, g.dw) == 0);
    BOOST_TEST(dot(g.dbias, g.dbias) == 0);
    Tensor y = Tensor::empty(c.y());
    op.conv(stream, Tensor::empty(c.x), g.dw, g.dbias, {}, Epilogue::relu, y);
  }
}

BOOST_AUTO_TEST_CASE(TheSameShapesAgainGiveTheSameBits) {
  Stream stream;
  const Case c = kCases[8];
  const Tensor x = exact(1, c.x, DType::f32), w = exact(2, c.w, DType::f32), dy = exact(3, c.y(), DType::f32);
  const Gradients first = gradients(stream, DType::f32, c, x, w, dy),
                  second = gradients(stream, DType::f32, c, x, w, dy);
  BOOST_TEST(same_bits(first.dx, second.dx));
  BOOST_TEST(same_bits(first.dw, second.dw));
}

BOOST_AUTO_TEST_CASE(SizesThatDoNotFitFailWithTheirValues) {
  Stream stream;
  Tensor y = Tensor::empty({2, 4, 6, 6});
  BOOST_TEST(
      failure_without("images [2, 3, 8, 8], weights [4, 2, 3, 3]", [&] {
        op.conv(stream, Tensor::empty({2, 3, 8, 8}), Tensor::empty({4, 2, 3, 3}), {}, {}, Epilogue::none, y);
      }) == "");
  BOOST_TEST(
      failure_without("images [2, 3, 2, 8], weights [4, 3, 3, 3], padding 0", [&] {
        op.conv(stream, Tensor::empty({2, 3, 2, 8}), Tensor::empty({4, 3, 3, 3}), {}, {}, Epilogue::none, y);
      }) == "");
  BOOST_TEST(failure_without("convolved images is [2, 4, 6, 6], expected [2, 4, 8, 8]", [&] {
               op.conv(stream, Tensor::empty({2, 3, 8, 8}), Tensor::empty({4, 3, 3, 3}), {}, {1, 1},
                       Epilogue::none, y);
             }) == "");
  BOOST_TEST(failure_without("stride 0", [&] { conv_output({1, 1, 3, 3}, {1, 1, 1, 1}, {0, 0}); }) == "");
}

BOOST_AUTO_TEST_SUITE_END()
