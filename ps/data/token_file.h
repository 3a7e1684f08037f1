#pragma once
#include <string>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/tensor/tensor.h>

namespace troupe::ps {

/// A file of token numbers, little-endian, plain or gzipped, as I32[n]:
///   llm.c   256 numbers of 32 bits: 20240520, 1, n; then n tokens of 16 bits (GPT-2), or
///           20240801, 7, n; then n tokens of 32 bits (Llama 3)
///   raw     nothing but tokens of 16 bits (nanoGPT)
/// A file that begins with neither of llm.c's numbers is raw. The count is compared with the size of the file before
/// memory is taken. ErrorKind::corrupt: another version, a count that does not fit the file, half a token at the end.
Result<Tensor> read_tokens(const std::string& path);

}  // namespace troupe::ps
