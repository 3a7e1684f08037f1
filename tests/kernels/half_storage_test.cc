// Activations held in 16 bits: what is rounded where, what the loss scale does, and what it saves.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numeric>

#include <tests/support/random_samples.h>
#include <tests/support/random_tokens.h>
#include <tests/support/tensors.h>
#include <troupe/kernels/nn/half_storage.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>
#include <troupe/kernels/nn/model_stage_source.h>

using namespace troupe;
using nn::ModelSpec;

BOOST_AUTO_TEST_SUITE(half_storage)

namespace {

const ModelSpec kMlp{.kind = "mlp", .input = {6}, .classes = 3, .hidden = {8, 7, 5}, .activation = "gelu",
                     .dropout = 0.3, .layer_norm = true};
const ModelSpec kCnn{.kind = "cnn", .input = {2, 8, 8}, .classes = 3, .hidden = {5}, .channels = {3, 4},
                     .batch_norm = true};
const ModelSpec kResnet{.kind = "resnet", .input = {1, 6, 6}, .classes = 3, .channels = {3, 4}, .blocks = {1, 2}};
const ModelSpec kGpt{.kind = "gpt", .input = {7}, .classes = 11, .dropout = 0.2, .layers = 3, .heads = 2, .width = 8,
                     .context = 7};

ModelSpec modern_gpt() {
  ModelSpec spec = kGpt;
  spec.positions = "rotary";
  spec.mlp = "swiglu";
  spec.tied = false;
  return spec;
}

const std::vector<ModelSpec> kModels{kMlp, kCnn, kResnet, kGpt, modern_gpt()};
const std::vector<DType> kHalves{DType::bf16, DType::f16};

struct Fixture {
  explicit Fixture(const ModelSpec& spec)
      : model(std::make_shared<const nn::Model>(nn::make_model(spec).value())), samples(6) {
    if (spec.kind == "gpt") data = std::make_shared<test::RandomTokens>(64, spec.input[0], spec.classes);
    else data = std::make_shared<test::RandomSamples>(spec.input, spec.classes);
    std::iota(samples.begin(), samples.end(), 5u);
    for (size_t layer = 0; layer < model->layers().size(); ++layer) {
      Tensor values = Tensor::empty({model->layers()[layer].count});
      model->initialize(layer, 3, values.span<float>());
      weights.push_back(values);
    }
  }

  /// By layer. One worker's.
  std::vector<Tensor> whole(DType storage, double loss_scale = 1) const {
    nn::ModelSource source(model, data, data, 1, storage);
    std::vector<Tensor> gradients(weights.size());
    const Batch batch{samples, 7, loss_scale};
    const auto keep = [&](size_t layer, Tensor gradient) { gradients[layer] = gradient; };
    loss = source.backward(batch, weights, keep).loss_sum;
    return gradients;
  }

  /// Of a chain of stages, a micro-batch with all samples; `passed`: what went from one to the next.
  std::vector<Tensor> in_parts(DType storage, std::vector<size_t> cuts, double loss_scale = 1) const {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(model->layers().size());
    std::vector<nn::ModelPart> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) parts.emplace_back(model, cuts[i], cuts[i + 1]);
    nn::ModelStageSource source(model, parts, data, data, 1, storage);
    const auto micro = [&](size_t part) {
      return MicroBatch{0, static_cast<uint32_t>(part), samples, 0, 7, true, loss_scale};
    };
    passed.clear();
    Tensor x;
    for (size_t p = 0; p < parts.size(); ++p)
      if (x = source.forward(micro(p), weights, std::move(x)); x) passed.push_back(x);
    for (size_t p = parts.size(); p-- > 0;)
      if (x = source.backward_input(micro(p), weights, std::move(x)); x) passed.push_back(x);
    // A tied layer's gradient adds up in the order of one worker.
    for (size_t p = parts.size(); p-- > 0;) source.backward_weight(micro(p), weights);
    std::vector<Tensor> gradients;
    for (size_t layer = 0; layer < weights.size(); ++layer) gradients.push_back(source.take_gradient(layer));
    return gradients;
  }

  /// Bytes that a pass holds between its halves, beyond weights.
  double kept_bytes(DType storage) const {
    nn::ModelStageSource source(model, {nn::ModelPart(model, 0, model->layers().size())}, data, data, 1, storage);
    const auto used = [] { return static_cast<double>(buffer_stats().used_bytes); };
    const MicroBatch micro{0, 0, samples, 0, 7, true};
    source.forward(micro, weights, {});  // takes its scratch memory
    source.reset();
    const double before = used();
    source.forward(micro, weights, {});
    return used() - before;
  }

  std::shared_ptr<const nn::Model> model;
  std::shared_ptr<const nn::Dataset> data;
  std::vector<uint32_t> samples;
  std::vector<Tensor> weights;
  mutable double loss = 0;
  mutable std::vector<Tensor> passed;
};

/// |a - b| / |b|, over all layers.
double gap(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double difference = 0, size = 0;
  for (size_t layer = 0; layer < b.size(); ++layer)
    for (int64_t i = 0; i < b[layer].count(); ++i) {
      difference += std::pow(test::at(a[layer], i) - test::at(b[layer], i), 2);
      size += std::pow(test::at(b[layer], i), 2);
    }
  return std::sqrt(difference / size);
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return test::same_bits(x, y); });
}

}  // namespace

// A pass through all layers rounds some ten times: bf16 to 2^-9 each, f16 to 2^-12.
BOOST_AUTO_TEST_CASE(GradientsAreThoseOfF32ButForRounding) {
  for (const ModelSpec& spec : kModels) {
    const Fixture f(spec);
    const auto exact = f.whole(DType::f32);
    const double loss = f.loss;
    BOOST_TEST_CONTEXT(spec.kind) {
      const double bf16 = gap(f.whole(DType::bf16), exact);
      BOOST_TEST(std::abs(f.loss - loss) < 0.02 * loss);
      const double f16 = gap(f.whole(DType::f16), exact);
      BOOST_TEST(std::abs(f.loss - loss) < 0.002 * loss);
      BOOST_TEST(bf16 < 0.1);
      BOOST_TEST(bf16 > 0.001);
      BOOST_TEST(f16 < 0.01);
      BOOST_TEST(f16 > 0.0001);
    }
  }
}

BOOST_AUTO_TEST_CASE(StagesRoundWhereOneWorkerDoes) {
  for (const ModelSpec& spec : kModels) {
    const Fixture f(spec);
    for (const DType storage : kHalves)
      for (const size_t cut : f.model->cuts())
        BOOST_TEST(same_bits(f.in_parts(storage, {cut}, 1024), f.whole(storage, 1024)),
                   spec.kind << " cut at " << cut << ", " << name_of(storage));
  }
}

BOOST_AUTO_TEST_CASE(WhatStagesPassIsHeldInHalves) {
  const Fixture f(kGpt);
  for (const DType storage : kHalves) {
    f.in_parts(storage, f.model->cuts());
    BOOST_TEST(f.passed.size() == 2 * f.model->cuts().size());
    for (const Tensor& tensor : f.passed) BOOST_TEST((tensor.dtype() == storage));
  }
}

BOOST_AUTO_TEST_CASE(RecomputedBlocksGiveTheSameBits) {
  for (const ModelSpec& spec : {kGpt, modern_gpt(), kResnet})
    for (const DType storage : kHalves) {
      ModelSpec again = spec;
      again.recompute = "full";
      BOOST_TEST(same_bits(Fixture(again).whole(storage), Fixture(spec).whole(storage)), spec.kind);
    }
}

// Masks, statistics and tokens are not halved.
BOOST_AUTO_TEST_CASE(APassKeepsAboutHalfTheBytes) {
  ModelSpec wide = kGpt;
  wide.input = {64};
  wide.context = 64;
  wide.width = 32;
  ModelSpec images = kResnet;
  images.input = {1, 16, 16};
  for (const ModelSpec& spec : {wide, images}) {
    const Fixture f(spec);
    const double f32 = f.kept_bytes(DType::f32);
    for (const DType storage : kHalves) BOOST_TEST(f.kept_bytes(storage) < 0.56 * f32);
  }
}

BOOST_AUTO_TEST_CASE(MatricesAreReadRoundedAndNormsAreNot) {
  const auto rounded = [](Tensor weights) {
    for (float& w : weights.span<float>()) w = to_float(to_bfloat16(w));
    return weights;
  };
  Fixture f(kMlp);
  for (Tensor& layer : f.weights)
    for (float& w : layer.span<float>()) w *= 1.001f;  // norms begin with ones
  for (size_t layer = 0; layer < f.weights.size(); ++layer) {
    Fixture changed(kMlp);
    for (size_t i = 0; i < f.weights.size(); ++i) changed.weights[i] = f.weights[i].clone();
    changed.weights[layer] = rounded(changed.weights[layer]);
    const bool is_norm = f.model->layers()[layer].name.find("norm") != std::string::npos;
    BOOST_TEST(same_bits(changed.whole(DType::bf16), f.whole(DType::bf16)) == !is_norm,
               f.model->layers()[layer].name);
  }
}

BOOST_AUTO_TEST_CASE(AScaleThatIsAPowerOfTwoChangesNoBitWhereTheRangeIsWideEnough) {
  for (const ModelSpec& spec : kModels)
    for (const DType storage : {DType::f32, DType::bf16}) {
      const Fixture f(spec);
      BOOST_TEST(same_bits(f.whole(storage, 65536), f.whole(storage)), spec.kind << ", " << name_of(storage));
    }
}

// A mean over many positions makes gradients that f16 holds in a few bits, or as zero.
BOOST_AUTO_TEST_CASE(AScaleSavesGradientsThatAreTooSmallForF16) {
  ModelSpec small = kMlp;
  small.dropout = 0;
  Fixture f(small);
  Tensor& last = f.weights.back();
  for (float& w : last.span<float>()) w *= 1e-5f;  // what it passes back is as small
  const auto exact = f.whole(DType::f32);
  BOOST_TEST(gap({f.whole(DType::f16)[0]}, {exact[0]}) > 0.02);
  BOOST_TEST(gap({f.whole(DType::f16, 8192)[0]}, {exact[0]}) < 0.01);
}

BOOST_AUTO_TEST_CASE(RunningStatisticsAreNeitherScaledNorUnscaled) {
  const Fixture f(kCnn);
  const auto plain = f.whole(DType::f16), scaled = f.whole(DType::f16, 1000);
  for (size_t layer = 0; layer < plain.size(); ++layer)
    for (const ParamSpec& param : f.model->layers()[layer].params) {
      if (param.kind != ParamKind::statistic) continue;
      const auto part = [&](const Tensor& gradient) { return gradient.view(param.offset, param.shape); };
      BOOST_TEST(test::same_bits(part(plain[layer]), part(scaled[layer])), param.name);
    }
}

BOOST_AUTO_TEST_CASE(AScaleTooLargeForF16ShowsInTheGradientAndNotInTheLoss) {
  const Fixture f(kMlp);
  const auto finite = [](const std::vector<Tensor>& gradients) {
    return std::ranges::all_of(gradients, [](const Tensor& g) {
      return std::ranges::all_of(g.span<float>(), [](float x) { return std::isfinite(x); });
    });
  };
  BOOST_TEST(finite(f.whole(DType::f16, 1024)));
  const double loss = f.loss;
  BOOST_TEST(!finite(f.whole(DType::f16, 1e9)));
  BOOST_TEST(f.loss == loss);
}

BOOST_AUTO_TEST_SUITE_END()
