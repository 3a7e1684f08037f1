#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/dataset.h>
#include <troupe/ps/data/tokenizer.h>

namespace troupe::ps {

/// `[data]`.
struct DataOptions {
  std::string format = "idx";  ///< idx | cifar10 | cifar100 | csv | npy | text | tokens | synthetic
  std::string path = "/usr/share/datasets/fashion-mnist";  ///< the folder
  /// Files in it; empty takes the format's usual names:
  ///   idx       train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-..., each with or without .gz
  ///   cifar10   data_batch_1.bin .. data_batch_5.bin, test_batch.bin
  ///   cifar100  train.bin, test.bin
  ///   csv       train.csv, test.csv (no separate labels)
  ///   npy       train_images.npy, train_labels.npy, test_images.npy, test_labels.npy
  std::string train_images, train_labels, test_images, test_labels;
  std::string label_column;                             ///< csv: see read_csv
  // text, tokens: samples are sequences of `context` tokens, labels the tokens that follow each.
  std::string train_text, test_text;      ///< files, relative to the folder; no test_text: the last `test_share`
  double test_share = 0.1;
  std::string tokenizer = "characters";   ///< text: characters | gpt2
  std::string vocab_file = "vocab.json";  ///< gpt2: relative to the folder
  std::string merges_file = "merges.txt";
  int64_t context = 128;
  int64_t vocabulary = 0;                 ///< 0: the tokenizer's; tokens: the largest token's and one
  std::vector<double> mean, std;                        ///< after bytes were scaled to 0..1; empty: 0 and 1
  int64_t train_limit = 0, test_limit = 0;              ///< only the first so many samples; 0: all
  int64_t samples = 4096, features = 32, classes = 10;  ///< synthetic; a quarter as many test samples more
  std::vector<int64_t> shape;  ///< synthetic: of a sample, [channels, height, width]; empty: [features]
  double noise = 1;
  uint64_t seed = 1;
};

struct DataSets {
  std::shared_ptr<const nn::Dataset> train, test;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< text; else none
};

/// Of one synthetic sample, without making any. Sizes out of range are errors.
Result<Shape> synthetic_shape(const DataOptions& options);

/// Reads both sets. The classes are those of the training labels (10 and 100 for CIFAR); a test label beyond
/// them, files that do not belong together and test samples of another shape are errors.
Result<DataSets> load_dataset(const DataOptions& options);

}  // namespace troupe::ps
