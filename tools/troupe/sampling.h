#pragma once
#include <cstdint>
#include <ostream>
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/generate.h>

/// What a trained transformer is asked to write.
struct SampleRequest {
  std::string path;           ///< a run's folder, a folder of checkpoints in it, or one checkpoint
  std::string prompt = "\n";  ///< UTF-8
  troupe::nn::GenerateOptions options;
  uint64_t seed = 1;
};

/// Writes the prompt and how the model of the newest valid checkpoint goes on, token by token, to `out`. The run's
/// config says which model it is and where its text lies, whose tokenizer is made again. What is not there, or is no
/// transformer's, is an error.
troupe::Status write_sample(const SampleRequest& request, std::ostream& out);
