#include <boost/test/unit_test.hpp>

#include <cmath>
#include <filesystem>

#include <troupe/ps/data/load_dataset.h>
#include <troupe/ps/data/memory_dataset.h>

#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::ps;
using troupe::test::TempFolder;

namespace {

Tensor bytes_to(Shape shape) {
  Tensor t = Tensor::empty(shape, DType::u8);
  for (int64_t i = 0; i < t.count(); ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  return t;
}

Tensor labels_of(std::vector<int32_t> labels) {
  return Tensor::from<int32_t>(labels, {static_cast<int64_t>(labels.size())});
}

std::string error_of(Tensor values, Tensor labels, int64_t classes, Normalisation n = {}) {
  const auto set = MemoryDataset::make("some.file", values, labels, classes, n);
  return set ? "no error" : set.error().message;
}

std::string idx(std::vector<int> dims, int value) {
  std::string out{'\0', '\0', '\10', static_cast<char>(dims.size())};
  int count = 1;
  for (const int d : dims) out += {'\0', '\0', '\0', static_cast<char>(d)}, count *= d;
  return out + std::string(static_cast<size_t>(count), static_cast<char>(value));
}

std::string load_error(const DataOptions& options) {
  const auto sets = load_dataset(options);
  return sets ? "no error" : sets.error().message;
}

boost::test_tools::assertion_result fashion_mnist_is_installed(boost::unit_test::test_unit_id) {
  return std::filesystem::is_directory(DataOptions{}.path);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dataset)

BOOST_AUTO_TEST_CASE(GatherConvertsAndNormalisesEachChannel) {
  const Tensor values = bytes_to({3, 2, 5, 9});  // 45 values a channel: a whole block and a rest
  const auto set =
      MemoryDataset::make("x", values, labels_of({2, 0, 1}), 3, {1.0 / 255, {0.5, 0.25}, {2, 4}});
  BOOST_REQUIRE(set.has_value());
  Tensor inputs = Tensor::empty({2, 2, 5, 9}), labels = Tensor::empty({2}, DType::i32);
  const std::vector<uint32_t> samples{2, 0};
  (*set)->gather(samples, inputs, labels);
  BOOST_TEST(labels.span<int32_t>() == (std::vector<int32_t>{1, 2}), boost::test_tools::per_element());
  for (int64_t i = 0; i < 90; ++i) {
    const double x = values.data<uint8_t>()[180 + i] / 255.0;
    BOOST_TEST(std::abs(inputs.data<float>()[i] - (i < 45 ? (x - 0.5) / 2 : (x - 0.25) / 4)) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(FloatSamplesAreGatheredUnchangedByDefault) {
  const std::vector<float> numbers{1.5f, -2, 3, 4};
  const auto set = MemoryDataset::make("x", Tensor::from<float>(numbers, {2, 2}), labels_of({0, 1}), 2, {});
  Tensor inputs = Tensor::empty({3, 2}), labels = Tensor::empty({3}, DType::i32);
  (*set)->gather(std::vector<uint32_t>{1, 1, 0}, inputs, labels);
  BOOST_TEST(inputs.span<float>() == (std::vector<float>{3, 4, 3, 4, 1.5f, -2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(ImagesAndLabelsOfDifferentCountsAreAnErrorWithBoth) {
  const std::string error = error_of(bytes_to({3, 4}), labels_of({0, 1}), 2);
  BOOST_TEST(error.find("some.file holds 3 samples") != std::string::npos, error);
  BOOST_TEST(error.find("2 labels") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(ALabelOutOfRangeIsAnErrorThatNamesTheSample) {
  for (const int32_t bad : {10, -1}) {
    const std::string error = error_of(bytes_to({3, 4}), labels_of({0, bad, 1}), 10);
    BOOST_TEST(error.find(cat("sample 1 has label ", bad)) != std::string::npos, error);
  }
}

BOOST_AUTO_TEST_CASE(ANormalisationThatDoesNotFitIsAnError) {
  BOOST_TEST(
      error_of(bytes_to({3, 3, 4}), labels_of({0, 0, 0}), 1, {1, {0, 0}, {1}}).find("data.mean has 2") !=
      std::string::npos);
  BOOST_TEST(error_of(bytes_to({3, 3, 4}), labels_of({0, 0, 0}), 1, {1, {0}, {0}}).find("data.std") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(SyntheticSetsAreReproducibleAndTheirPartsDiffer) {
  DataOptions options;
  options.format = "synthetic";
  options.samples = 64, options.features = 8, options.classes = 4;
  const auto a = load_dataset(options), b = load_dataset(options);
  BOOST_REQUIRE(a && b);
  BOOST_TEST(a->train->size() == 64);
  BOOST_TEST(a->test->size() == 16);
  Tensor train = Tensor::empty({1, 8}), again = Tensor::empty({1, 8}), test = Tensor::empty({1, 8});
  Tensor label = Tensor::empty({1}, DType::i32);
  const std::vector<uint32_t> first{0};
  a->train->gather(first, train, label);
  b->train->gather(first, again, label);
  a->test->gather(first, test, label);
  BOOST_TEST(std::memcmp(train.raw(), again.raw(), 32) == 0);
  BOOST_TEST(std::memcmp(train.raw(), test.raw(), 32) != 0);
}

BOOST_AUTO_TEST_CASE(ASyntheticSetThatNoMemoryHoldsIsRefused) {
  DataOptions options;
  options.format = "synthetic";
  options.samples = 4, options.features = int64_t{1} << 31, options.classes = int64_t{1} << 31;
  BOOST_TEST(load_dataset(options).error().message.find("data.classes = 2147483648") != std::string::npos);
  options.classes = (int64_t{1} << 31) - 1;
  BOOST_TEST(load_dataset(options).error().message.find("2^40") != std::string::npos);
  options.shape = {3, int64_t{1} << 62, 4};
  BOOST_TEST(synthetic_shape(options).error().message.find("data.shape has a dimension of 4") != std::string::npos);
  options.shape = {1, 1, 1, 1};
  BOOST_TEST(load_dataset(options).error().message.find("data.shape has 4 dimensions") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(SyntheticSamplesMayBeImages) {
  DataOptions options;
  options.format = "synthetic";
  options.samples = 3, options.classes = 1000, options.shape = {2, 5, 4};
  const auto images = load_dataset(options);
  BOOST_REQUIRE(images);
  BOOST_TEST((images->train->sample_shape() == Shape{2, 5, 4}));
  BOOST_TEST(images->train->classes() == 1000);
  BOOST_TEST((synthetic_shape(options).value() == Shape{2, 5, 4}));
}

BOOST_AUTO_TEST_CASE(AFolderOfIdxFilesIsLoadedByTheirUsualNames) {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte", idx({3, 2, 2}, 255));
  folder.write("train-labels-idx1-ubyte", idx({3}, 4));
  folder.write("t10k-images-idx3-ubyte", idx({2, 2, 2}, 51));
  folder.write("t10k-labels-idx1-ubyte", idx({2}, 1));
  DataOptions options;
  options.path = folder.path();
  options.train_limit = 2;
  const auto sets = load_dataset(options);
  BOOST_REQUIRE_MESSAGE(sets.has_value(), (sets ? "" : sets.error().message));
  BOOST_TEST(sets->train->size() == 2);
  BOOST_TEST(sets->train->classes() == 5);
  BOOST_TEST((sets->test->sample_shape() == Shape{1, 2, 2}));
  Tensor inputs = Tensor::empty({1, 4}), labels = Tensor::empty({1}, DType::i32);
  sets->test->gather(std::vector<uint32_t>{1}, inputs, labels);
  BOOST_TEST(inputs.data<float>()[3] == 0.2f, boost::test_tools::tolerance(1e-6f));
}

BOOST_AUTO_TEST_CASE(LabelsThatAreTooFewAreAnErrorEvenUnderALimit) {
  const TempFolder folder;
  folder.write("train-images-idx3-ubyte", idx({3, 2, 2}, 255));
  folder.write("train-labels-idx1-ubyte", idx({2}, 4));
  DataOptions options;
  options.path = folder.path();
  options.train_limit = 1;
  BOOST_TEST(load_error(options).find("2 labels") != std::string::npos, load_error(options));
}

BOOST_AUTO_TEST_CASE(AMissingFashionMnistFolderNamesThePackage) {
  const TempFolder folder;
  DataOptions options;
  options.path = folder / "fashion-mnist";
  BOOST_TEST(load_error(options).find("apt-get install dataset-fashion-mnist") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(TestSamplesOfAnotherShapeAreAnError) {
  const TempFolder folder;
  folder.write("train.csv", "1,2,0\n");
  folder.write("test.csv", "1,0\n");
  DataOptions options;
  options.format = "csv";
  options.path = folder.path();
  BOOST_TEST(load_error(options).find("test.csv has samples of shape [1]") != std::string::npos,
             load_error(options));
}

BOOST_AUTO_TEST_CASE(AnUnknownFormatIsAnErrorThatListsTheFormats) {
  DataOptions options;
  options.format = "hdf5";
  BOOST_TEST(load_error(options).find("idx, cifar10") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(FashionMnistLoads, *boost::unit_test::precondition(fashion_mnist_is_installed)) {
  const auto sets = load_dataset({});
  BOOST_REQUIRE_MESSAGE(sets.has_value(), (sets ? "" : sets.error().message));
  BOOST_TEST(sets->train->size() == 60000);
  BOOST_TEST(sets->test->size() == 10000);
  BOOST_TEST(sets->train->classes() == 10);
}

BOOST_AUTO_TEST_SUITE_END()
