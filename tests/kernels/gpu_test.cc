#include <boost/test/unit_test.hpp>

#include <future>

#include <tests/support/gpu.h>
#include <tests/support/ops.h>
#include <tests/support/random_samples.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

// What only a real device can show. Each test is skipped, with the reason, where there is none.

using namespace troupe;

namespace {

std::unique_ptr<Stream> new_stream() { return std::move(*test::gpus().make_stream({})); }

// The largest difference of two tensors beside the largest number in the second.
double difference(const Tensor& got, const Tensor& expected) {
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < got.count(); ++i) {
    worst = std::max(worst, std::abs(test::at(got, i) - test::at(expected, i)));
    largest = std::max(largest, std::abs(test::at(expected, i)));
  }
  return worst / largest;
}

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-12 : 1e-5; }

void check_gemm(DType dtype, ops::Trans a_trans, ops::Trans b_trans, int64_t m, int64_t n, int64_t k, double beta) {
  const auto shape = [](ops::Trans trans, int64_t rows, int64_t columns) {
    return trans == ops::Trans::yes ? Shape{columns, rows} : Shape{rows, columns};
  };
  const Tensor a = test::exact(1, shape(a_trans, m, k), dtype), b = test::exact(2, shape(b_trans, k, n), dtype);
  Tensor expected = test::exact(3, {m, n}, dtype);
  const auto stream = new_stream();
  Tensor got = test::to_device(*stream, expected);
  test::gpus().ops().gemm(*stream, a_trans, b_trans, test::to_device(*stream, a), test::to_device(*stream, b), beta,
                          got);
  Stream cpu;
  ops::cpu_ops().gemm(cpu, a_trans, b_trans, a, b, beta, expected);
  BOOST_TEST(difference(test::to_host(*stream, got), expected) < tolerance(dtype),
             m << " x " << n << " x " << k << ", beta " << beta);
}

void check_linear(DType dtype, int64_t m, int64_t n, int64_t k, bool with_bias, ops::Epilogue epilogue) {
  const Tensor x = test::exact(1, {m, k}, dtype);
  // As a layer has them: one vector, in which the bias begins wherever the weights end.
  const Tensor flat = test::exact(2, {n * k + n}, dtype);
  const auto stream = new_stream();
  const Tensor flat_device = test::to_device(*stream, flat);
  const auto w = [&](const Tensor& all) { return all.view(0, {n, k}); };
  const auto bias = [&](const Tensor& all) { return with_bias ? all.view(n * k, {n}) : Tensor(); };
  Tensor got = stream->empty({m, n}, dtype), expected = Tensor::empty({m, n}, dtype);
  test::gpus().ops().linear(*stream, test::to_device(*stream, x), w(flat_device), bias(flat_device), epilogue, got);
  Stream cpu;
  ops::cpu_ops().linear(cpu, x, w(flat), bias(flat), epilogue, expected);
  // cuBLASLt does not say how near its tanh is.
  const double most = epilogue == ops::Epilogue::gelu_tanh && dtype == DType::f32 ? 1e-3 : tolerance(dtype);
  BOOST_TEST(difference(test::to_host(*stream, got), expected) < most, m << " x " << n << " x " << k);
}

// cuDNN may convolve by Winograd's transforms, which round more than sums do.
void check_conv(int64_t n, int64_t c, int64_t size, int64_t o, int64_t kernel, ops::ConvGeometry g,
                DType dtype = DType::f32) {
  const double most = dtype == DType::f64 ? 1e-12 : 1e-4;
  const std::string what = cat(n, " x ", c, " x ", size, "^2 by ", o, " x ", kernel, "^2, stride ", g.stride,
                               ", padding ", g.padding, ", ", name_of(dtype));
  const Shape shape = ops::conv_output({n, c, size, size}, {o, c, kernel, kernel}, g);
  const Tensor x = test::exact(1, {n, c, size, size}, dtype), w = test::exact(2, {o, c, kernel, kernel}, dtype),
               bias = test::exact(3, {o}, dtype), dy = test::exact(4, shape, dtype);
  const auto stream = new_stream();
  Stream cpu;
  const ops::Ops& gpu_ops = test::gpus().ops();
  const ops::Ops& cpu_ops = ops::cpu_ops();
  const Tensor x_device = test::to_device(*stream, x), w_device = test::to_device(*stream, w),
               bias_device = test::to_device(*stream, bias), dy_device = test::to_device(*stream, dy);
  for (const ops::Epilogue epilogue : {ops::Epilogue::none, ops::Epilogue::relu}) {
    Tensor got = stream->empty(shape, dtype), expected = Tensor::empty(shape, dtype);
    gpu_ops.conv(*stream, x_device, w_device, bias_device, g, epilogue, got);
    cpu_ops.conv(cpu, x, w, bias, g, epilogue, expected);
    BOOST_TEST(difference(test::to_host(*stream, got), expected) < most, what);
  }
  Tensor dx = stream->empty(x.shape(), dtype), expected_dx = Tensor::empty(x.shape(), dtype);
  gpu_ops.conv_input_gradient(*stream, dy_device, w_device, g, dx);
  cpu_ops.conv_input_gradient(cpu, dy, w, g, expected_dx);
  BOOST_TEST(difference(test::to_host(*stream, dx), expected_dx) < most, what << ", input");
  for (const ops::Write write : {ops::Write::set, ops::Write::add}) {
    Tensor expected_dw = test::exact(5, w.shape(), dtype), expected_db = test::exact(6, {o}, dtype);
    Tensor dw = test::to_device(*stream, expected_dw), db = test::to_device(*stream, expected_db);
    gpu_ops.conv_weight_gradient(*stream, x_device, dy_device, g, write, dw, db);
    cpu_ops.conv_weight_gradient(cpu, x, dy, g, write, expected_dw, expected_db);
    BOOST_TEST(difference(test::to_host(*stream, dw), expected_dw) < most, what << ", weights");
    BOOST_TEST(difference(test::to_host(*stream, db), expected_db) < most, what << ", bias");
  }
}

void check_step(const nn::ModelSpec& spec) {
  const auto model = std::make_shared<const nn::Model>(std::move(*nn::make_model(spec)));
  const auto data = std::make_shared<const test::RandomSamples>(spec.input, 10, 300);
  nn::ModelSource cpu(model, data, data);
  const auto gpu = std::move(*nn::ModelSource::make(model, data, data, load_backend(DeviceKind::cuda).value(), {}));
  std::vector<Tensor> weights, expected(model->layers().size());
  for (size_t layer = 0; layer < expected.size(); ++layer) {
    weights.push_back(Tensor::empty({model->layers()[layer].count}));
    cpu.initialize(layer, 1, weights.back().span<float>());
  }
  std::vector<uint32_t> samples(64);
  for (uint32_t i = 0; i < samples.size(); ++i) samples[i] = i * 3;
  const Batch batch{samples, 7};
  const StepStats on_cpu =
      cpu.backward(batch, weights, [&](size_t layer, Tensor gradient) { expected[layer] = std::move(gradient); });
  const StepStats on_gpu = gpu->backward(batch, weights, [&](size_t layer, Tensor gradient) {
    BOOST_TEST(difference(gradient, expected[layer]) < 1e-3, "gradient of " << model->layers()[layer].name);
  });
  BOOST_TEST(on_gpu.loss_sum == on_cpu.loss_sum, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(on_gpu.samples == on_cpu.samples);
  BOOST_TEST(gpu->evaluate(samples, weights).loss_sum == cpu.evaluate(samples, weights).loss_sum,
             boost::test_tools::tolerance(1e-5));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gpu)

BOOST_AUTO_TEST_CASE(BytesComeBackFromTheDeviceAsTheyWere, TROUPE_GPU_TEST(1)) {
  const auto stream = new_stream();
  for (int64_t count : {1, 1000, 3 << 20}) {
    const Tensor values = test::as(DType::f32, test::normal(5, {count}));
    const Tensor back = test::to_host(*stream, test::to_device(*stream, values));
    BOOST_TEST(std::memcmp(back.raw(), values.raw(), values.bytes()) == 0, count << " elements");
    Tensor pinned = empty_on_host(test::gpus(), {count});
    stream->copy(test::to_device(*stream, values), pinned);
    BOOST_TEST_REQUIRE(stream->wait().has_value());
    BOOST_TEST(std::memcmp(pinned.raw(), values.raw(), values.bytes()) == 0, count << " elements, pinned");
  }
}

// By cuDNN where Troupe was built with it: see devices()[0].driver.
BOOST_AUTO_TEST_CASE(ConvolutionsEqualTheCpus, TROUPE_GPU_TEST(1)) {
  BOOST_TEST_MESSAGE(test::gpus().devices().front().driver);
  check_conv(5, 3, 13, 7, 3, {1, 1});
  check_conv(4, 8, 17, 9, 5, {2, 2});
  check_conv(3, 6, 11, 5, 1, {2, 0});  // pixels that no window sees: their gradient is 0
  check_conv(64, 64, 28, 64, 3, {1, 1});
  check_conv(5, 3, 13, 7, 3, {1, 1}, DType::f64);
  check_conv(0, 3, 13, 7, 3, {1, 1});
}

// cuDNN has algorithms that add in whatever order blocks end; those are not chosen.
BOOST_AUTO_TEST_CASE(ConvolutionsGiveTheSameBitsEveryTime, TROUPE_GPU_TEST(1)) {
  const auto stream = new_stream();
  const ops::ConvGeometry g{1, 1};
  const Tensor x = test::to_device(*stream, test::as(DType::f32, test::normal(1, {64, 32, 28, 28})));
  const Tensor dy = test::to_device(*stream, test::as(DType::f32, test::normal(2, {64, 48, 28, 28})));
  Tensor first, none;
  for (int round = 0; round < 5; ++round) {
    Tensor dw = stream->empty({48, 32, 3, 3});
    test::gpus().ops().conv_weight_gradient(*stream, x, dy, g, ops::Write::set, dw, none);
    const Tensor got = test::to_host(*stream, dw);
    if (round == 0) first = got;
    BOOST_TEST(std::memcmp(got.raw(), first.raw(), got.bytes()) == 0, "round " << round);
  }
}

BOOST_AUTO_TEST_CASE(OneStreamWaitsForAnotherWhereToldTo, TROUPE_GPU_TEST(1)) {
  const auto first = new_stream(), second = new_stream();
  const int64_t count = 16 << 20;
  Tensor device = first->empty({count});
  for (int round = 1; round <= 5; ++round) {
    test::gpus().ops().fill(*first, round, device);
    test::gpus().order(*first, *second);
    Tensor total = second->empty({1}, DType::f64);
    test::gpus().ops().sum(*second, device, total);
    BOOST_TEST(test::to_host(*second, total).data<double>()[0] == static_cast<double>(round * count));
    test::gpus().order(*second, *first);
  }
}

BOOST_AUTO_TEST_CASE(ThenIsCalledOnceWhatWasSubmittedHasRun, TROUPE_GPU_TEST(1)) {
  const auto stream = new_stream();
  Tensor device = stream->empty({1 << 20}), host = empty_on_host(test::gpus(), {1 << 20});
  test::gpus().ops().fill(*stream, 3, device);
  stream->copy(device, host);
  std::promise<float> seen;
  stream->then([&](Status status) { seen.set_value(status ? host.data<float>()[(1 << 20) - 1] : -1.f); });
  BOOST_TEST(seen.get_future().get() == 3.f);
}

BOOST_AUTO_TEST_CASE(MoreMemoryThanThereIsSaysHowMuchWasAsked, TROUPE_GPU_TEST(1)) {
  const auto stream = new_stream();
  const size_t bytes = test::gpus().devices()[0].memory_bytes * 2;
  BOOST_CHECK_EXCEPTION(stream->allocate(bytes), std::bad_alloc, [&](const std::exception& e) {
    return std::string(e.what()).find(std::to_string(bytes) + " bytes") != std::string::npos;
  });
  BOOST_TEST(stream->wait().has_value(), "a stream that got no memory goes on");
}

BOOST_AUTO_TEST_CASE(ProductsEqualTheCpus, TROUPE_GPU_TEST(1)) {
  using enum ops::Trans;
  for (DType dtype : {DType::f32, DType::f64})
    for (ops::Trans a : {no, yes})
      for (ops::Trans b : {no, yes})
        for (double beta : {0., 1., 0.5}) {
          check_gemm(dtype, a, b, 37, 53, 129, beta);
          check_gemm(dtype, a, b, 1, 300, 5, beta);
          check_gemm(dtype, a, b, 7, 3, 0, beta);
        }
}

BOOST_AUTO_TEST_CASE(LinearLayersEqualTheCpusWhereverTheirBiasLies, TROUPE_GPU_TEST(1)) {
  for (DType dtype : {DType::f32, DType::f64})
    for (bool bias : {false, true})
      for (ops::Epilogue epilogue :
           {ops::Epilogue::none, ops::Epilogue::relu, ops::Epilogue::gelu, ops::Epilogue::gelu_tanh}) {
        check_linear(dtype, 64, 128, 256, bias, epilogue);
        check_linear(dtype, 37, 51, 127, bias, epilogue);
        check_linear(dtype, 1, 10, 3, bias, epilogue);
      }
}

BOOST_AUTO_TEST_CASE(AStepOfAnMlpEqualsTheCpus, TROUPE_GPU_TEST(1)) {
  check_step({.kind = "mlp",
              .input = {50},
              .classes = 10,
              .hidden = {64, 32},
              .activation = "gelu",
              .dropout = 0.3,
              .layer_norm = true});
}

BOOST_AUTO_TEST_CASE(AStepOfACnnEqualsTheCpus, TROUPE_GPU_TEST(1)) {
  check_step({.kind = "cnn",
              .input = {3, 16, 16},
              .classes = 10,
              .hidden = {32},
              .channels = {8, 16},
              .dropout = 0.2,
              .batch_norm = true});
}

BOOST_AUTO_TEST_CASE(AStepOfAResnetEqualsTheCpus, TROUPE_GPU_TEST(1)) {
  check_step({.kind = "resnet", .input = {3, 16, 16}, .classes = 10, .channels = {8, 16}, .blocks = {1, 1}});
}

BOOST_AUTO_TEST_SUITE_END()
