#include <troupe/ps/data/load_dataset.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include <troupe/kernels/nn/layer.h>
#include <troupe/ps/data/cifar.h>
#include <troupe/ps/data/csv.h>
#include <troupe/ps/data/idx.h>
#include <troupe/ps/data/load_text.h>
#include <troupe/ps/data/memory_dataset.h>
#include <troupe/ps/data/npy.h>
#include <troupe/ps/data/synthetic.h>

namespace troupe::ps {

namespace {

namespace fs = std::filesystem;

enum class Part { train, test };

/// The file of that name, or the one with .gz where only that exists; `given` instead where it is set.
std::string file(const DataOptions& o, const std::string& given, const std::string& usual) {
  const fs::path plain = fs::path(o.path) / (given.empty() ? usual : given);
  std::error_code ignored;
  if (given.empty() && !fs::exists(plain, ignored) && fs::exists(plain.string() + ".gz", ignored))
    return plain.string() + ".gz";
  return plain.string();
}

Status check_folder(const DataOptions& o) {
  std::error_code ignored;
  if (fs::is_directory(o.path, ignored)) return {};
  const bool fashion = o.path.find("fashion-mnist") != std::string::npos;
  return fail(
      ErrorKind::missing,
      cat("data.path = ", o.path, fs::exists(o.path, ignored) ? " is not a folder" : " does not exist",
          fashion ? "; Fashion-MNIST comes with the Debian package dataset-fashion-mnist: apt-get install "
                    "dataset-fashion-mnist, or set data.path to a folder with its four IDX files"
                  : "; set data.path to the folder that holds the data files"));
}

using Reader = Result<Tensor> (*)(const std::string& path);

/// Values and labels from two files.
Result<Samples> read_pair(Reader read_values, const std::string& values_path, Reader read_labels,
                          const std::string& labels_path) {
  auto values = read_values(values_path);
  if (!values) return tl::unexpected(values.error());
  auto labels = read_labels(labels_path);
  if (!labels) return tl::unexpected(labels.error());
  if (values->shape()[0] != labels->count())
    return fail(ErrorKind::invalid,
                cat(values_path, " holds ", values->shape()[0], " samples, but ", labels_path, " holds ",
                    labels->count(), " labels: the two files do not belong together; fetch them again"));
  return Samples{values_path, std::move(*values), std::move(*labels)};
}

Result<Samples> read_part(const DataOptions& o, Part part) {
  const bool train = part == Part::train;
  const std::string& images = train ? o.train_images : o.test_images;
  const std::string& labels = train ? o.train_labels : o.test_labels;
  const std::string set = train ? "train" : "test";
  if (o.format == "idx") {
    const std::string prefix = train ? "train" : "t10k";
    return read_pair(read_idx_images, file(o, images, prefix + "-images-idx3-ubyte"), read_idx_labels,
                     file(o, labels, prefix + "-labels-idx1-ubyte"));
  }
  if (o.format == "npy")
    return read_pair(read_npy_values, file(o, images, set + "_images.npy"), read_npy_labels,
                     file(o, labels, set + "_labels.npy"));
  if (o.format == "csv") return read_csv(file(o, images, set + ".csv"), o.label_column);
  if (o.format == "cifar100") return read_cifar(Cifar::hundred, {file(o, images, set + ".bin")});
  std::vector<std::string> files;
  if (!train || !images.empty()) {
    files = {file(o, images, "test_batch.bin")};
  } else {
    for (int i = 1; i <= 5; ++i) files.push_back(file(o, "", cat("data_batch_", i, ".bin")));
  }
  return read_cifar(Cifar::ten, files);
}

Samples synthetic_part(const DataOptions& o, Part part) {
  const Shape shape = synthetic_shape(o).value();
  SyntheticOptions s{o.samples, shape.count(), o.classes, o.noise, o.seed, static_cast<uint64_t>(part)};
  if (part == Part::test) s.samples = std::max<int64_t>(1, o.samples / 4);
  Samples made = make_blobs(s);
  made.values = made.values.reshaped(nn::batch_shape(s.samples, shape));
  return made;
}

int64_t classes_of(const DataOptions& o, const Samples& train) {
  if (o.format == "cifar10") return 10;
  if (o.format == "cifar100") return 100;
  if (o.format == "synthetic") return o.classes;
  const auto labels = train.labels.span<int32_t>();
  return labels.empty() ? 1 : int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

Tensor first(const Tensor& t, int64_t count) {
  std::vector<int64_t> dims(t.shape().span().begin(), t.shape().span().end());
  dims[0] = count;
  return t.view(0, Shape(std::span<const int64_t>(dims)));
}

Result<std::shared_ptr<const MemoryDataset>> make_set(const DataOptions& o, Samples samples, int64_t classes,
                                                      int64_t limit) {
  // A limit must not hide that the files do not belong together.
  const bool matched = samples.values.shape()[0] == samples.labels.count();
  if (matched && limit > 0 && limit < samples.labels.count()) {
    samples.values = first(samples.values, limit);
    samples.labels = first(samples.labels, limit);
  }
  Normalisation normalisation;
  if (samples.values.dtype() == DType::u8) normalisation.scale = 1.0 / 255;
  if (!o.mean.empty()) normalisation.mean = o.mean;
  if (!o.std.empty()) normalisation.deviation = o.std;
  return MemoryDataset::make(samples.name, samples.values, samples.labels, classes, normalisation);
}

Status check_synthetic(const DataOptions& o) {
  if (o.shape.size() > 3)
    return fail(ErrorKind::invalid, cat("data.shape has ", o.shape.size(),
                                        " dimensions; samples of up to three can be made: [channels, height, width]"));
  int64_t features = o.shape.empty() ? o.features : 1, values = 0, centres = 0;
  for (const int64_t size : o.shape)
    if (size < 1 || __builtin_mul_overflow(features, size, &features))
      return fail(ErrorKind::invalid, cat("data.shape has a dimension of ", size,
                                          ": each must be at least 1, and no more than 2^40 numbers can be made"));
  if (o.samples < 1 || features < 1 || o.classes < 1 || o.samples > int64_t{1} << 32 ||
      o.classes > std::numeric_limits<int32_t>::max() || __builtin_mul_overflow(o.samples, features, &values) ||
      __builtin_mul_overflow(o.classes, features, &centres) || std::max(values, centres) > int64_t{1} << 40)
    return fail(ErrorKind::invalid,
                cat("data.samples = ", o.samples, ", numbers in each (data.features or data.shape) = ", features,
                    ", data.classes = ", o.classes,
                    ": each must be at least 1, and no more than 2^40 numbers can be made"));
  return {};
}

Status check_options(const DataOptions& o) {
  const std::vector<std::string> formats{"idx", "cifar10", "cifar100", "csv", "npy", "text", "tokens", "synthetic"};
  if (std::find(formats.begin(), formats.end(), o.format) == formats.end())
    return fail(ErrorKind::invalid,
                cat("data.format = \"", o.format,
                    "\" is not known; there are idx, cifar10, cifar100, csv, npy, text, tokens and synthetic"));
  return o.format == "synthetic" ? check_synthetic(o) : check_folder(o);
}

}  // namespace

Result<Shape> synthetic_shape(const DataOptions& o) {
  TROUPE_TRY(check_synthetic(o));
  return o.shape.empty() ? Shape{o.features} : Shape(std::span<const int64_t>(o.shape));
}

Result<DataSets> load_dataset(const DataOptions& o) {
  TROUPE_TRY(check_options(o));
  if (o.format == "text" || o.format == "tokens") return load_text(o);
  const auto read = [&](Part part) -> Result<Samples> {
    if (o.format == "synthetic") return synthetic_part(o, part);
    auto samples = read_part(o, part);
    if (samples || samples.error().kind != ErrorKind::missing) return samples;
    const char* set = part == Part::train ? "train" : "test";
    return fail(ErrorKind::missing,
                cat(samples.error().message, "; put the files, as they are or with .gz, into data.path = ", o.path,
                    ", or name others with data.", set, "_images and data.", set, "_labels"));
  };
  auto train = read(Part::train);
  if (!train) return tl::unexpected(train.error());
  const int64_t classes = classes_of(o, *train);
  auto train_set = make_set(o, std::move(*train), classes, o.train_limit);
  if (!train_set) return tl::unexpected(train_set.error());
  auto test = read(Part::test);
  if (!test) return tl::unexpected(test.error());
  const std::string test_name = test->name;
  auto test_set = make_set(o, std::move(*test), classes, o.test_limit);
  if (!test_set) return tl::unexpected(test_set.error());
  if ((*train_set)->sample_shape() != (*test_set)->sample_shape())
    return fail(ErrorKind::invalid, cat(test_name, " has samples of shape ", (*test_set)->sample_shape(),
                                        ", the training set of shape ", (*train_set)->sample_shape()));
  return DataSets{*train_set, *test_set};
}

}  // namespace troupe::ps
