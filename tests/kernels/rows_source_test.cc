#include <boost/test/unit_test.hpp>

#include <cstring>
#include <map>

#include <tests/support/late_device.h>
#include <tests/support/random_tokens.h>
#include <troupe/kernels/nn/make_model.h>
#include <troupe/kernels/nn/model_source.h>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(rows_source)

namespace {

constexpr int64_t kWidth = 16, kTokens = 61;

/// A transformer whose embedding is by rows, its weights, and those that a batch's rows make of them.
struct Fixture {
  explicit Fixture(DType storage = DType::f32, std::shared_ptr<Backend> backend = nullptr) {
    const nn::ModelSpec spec{.kind = "gpt", .input = {5}, .classes = kTokens, .layers = 1, .heads = 2, .width = kWidth,
                             .context = 5, .tied = false, .sparse_embedding = true};
    const auto model = std::make_shared<nn::Model>(std::move(*nn::make_model(spec)));
    const auto data = std::make_shared<test::RandomTokens>(64, 5, kTokens);
    if (backend)
      source = std::move(*nn::ModelSource::make(model, data, data, backend, {}, storage));
    else
      source = std::make_unique<nn::ModelSource>(model, data, data, 1, storage);
    for (size_t layer = 0; layer < source->layers().size(); ++layer) {
      weights.push_back(Tensor::empty({source->layers()[layer].count}));
      source->initialize(layer, 1, weights.back().span<float>());
    }
  }

  std::vector<Tensor> of_rows(const Tensor& rows) const {
    std::vector<Tensor> some = weights;
    some[0] = Tensor::empty({rows.count() * kWidth});
    for (int64_t i = 0; i < rows.count(); ++i)
      std::memcpy(some[0].data<float>() + i * kWidth, weights[0].data<float>() + rows.data<int32_t>()[i] * kWidth,
                  kWidth * sizeof(float));
    return some;
  }
  std::map<size_t, Tensor> gradients(const Batch& batch, const std::vector<Tensor>& given) {
    std::map<size_t, Tensor> all;
    stats = source->backward(batch, given, [&](size_t layer, Tensor gradient) { all[layer] = std::move(gradient); });
    return all;
  }

  std::unique_ptr<nn::ModelSource> source;
  std::vector<Tensor> weights;
  StepStats stats;
};

bool equal(const Tensor& a, const Tensor& b) {
  return a.count() == b.count() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// Two batches, so that neither the rows nor a device's memory of the first are taken for the second's.
void check_equal(Fixture fixture) {
  for (const std::vector<uint32_t>& samples : {std::vector<uint32_t>{3, 9, 40}, {7, 8}, {7, 8}}) {
    const Batch batch{samples, 5};
    const Tensor rows = fixture.source->rows(batch, 0);
    BOOST_TEST(rows.count() > 1);
    const auto numbers = rows.span<int32_t>();
    BOOST_TEST((std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end()));
    const auto some = fixture.gradients(batch, fixture.of_rows(rows));
    const StepStats stats = fixture.stats;
    const auto whole = fixture.gradients(batch, fixture.weights);
    BOOST_TEST(stats.loss_sum == fixture.stats.loss_sum);
    for (size_t layer = 1; layer < fixture.weights.size(); ++layer) BOOST_TEST(equal(some.at(layer), whole.at(layer)));
    Tensor spread = Tensor::zeros({kTokens * kWidth});
    for (size_t i = 0; i < numbers.size(); ++i)
      std::copy_n(some.at(0).data<float>() + static_cast<int64_t>(i) * kWidth, kWidth,
                  spread.data<float>() + numbers[i] * kWidth);
    BOOST_TEST(equal(spread, whole.at(0)));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(AStepOnItsRowsIsEqualToOneOnTheWholeTableBitForBit) { check_equal(Fixture()); }
BOOST_AUTO_TEST_CASE(SoIsOneThatStoresHalves) { check_equal(Fixture(DType::bf16)); }
BOOST_AUTO_TEST_CASE(SoIsOneOnADevice) { check_equal(Fixture(DType::f32, std::make_shared<test::LateBackend>(3))); }

BOOST_AUTO_TEST_CASE(ATestReadsTheWholeTable) {
  Fixture fixture;
  const std::vector<uint32_t> samples{1, 2};
  const Batch batch{samples, 5};
  const double before = fixture.source->evaluate(samples, fixture.weights).loss_sum;
  fixture.gradients(batch, fixture.of_rows(fixture.source->rows(batch, 0)));
  BOOST_TEST(fixture.source->evaluate(samples, fixture.weights).loss_sum == before);
}

BOOST_AUTO_TEST_CASE(WeightsOfOtherRowsAreABug) {
  Fixture fixture;
  const std::vector<uint32_t> samples{1, 2};
  const Tensor rows = fixture.source->rows({samples, 5}, 0);
  const std::vector<Tensor> fewer = fixture.of_rows(rows.view(1, {rows.count() - 1}));
  BOOST_CHECK_THROW(fixture.gradients({samples, 5}, fewer), CheckFailure);
}

BOOST_AUTO_TEST_CASE(ATiedEmbeddingIsNotByRows) {
  nn::ModelSpec spec{.kind = "gpt", .input = {5}, .classes = 7, .layers = 1, .heads = 2, .width = 4, .context = 5};
  spec.sparse_embedding = true;
  const auto model = nn::make_model(spec);
  BOOST_REQUIRE(!model.has_value());
  BOOST_TEST(model.error().message.find("model.tied = false") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
