#pragma once
#include <troupe/ps/data/load_dataset.h>

namespace troupe::ps {

/// The formats `text` and `tokens` of load_dataset: reads the files, makes or reads the tokenizer, and cuts the tokens
/// into samples of `context`. A character tokenizer's vocabulary is that of the whole training file. Without a test
/// file the last `test_share` of the training file's tokens are the test set.
Result<DataSets> load_text(const DataOptions& options);

/// The tokenizer alone, which needs no test file. Of format `tokens`: GPT-2's, if that is the one told.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const DataOptions& options);

}  // namespace troupe::ps
