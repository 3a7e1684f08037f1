#include <troupe/ps/data/token_file.h>

#include <numeric>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/gzip.h>
#include <troupe/ps/data/token_dataset.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// As llm.c writes tokens of 32 bits.
std::string file_of(const Tensor& tokens) {
  std::vector<int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = static_cast<int32_t>(tokens.count());
  std::string out(reinterpret_cast<const char*>(header.data()), 4 * header.size());
  return out.append(reinterpret_cast<const char*>(tokens.raw()), tokens.bytes());
}

/// Every sample can be gathered, and labels are the inputs one token on.
void promise_samples(const Tensor& tokens, int64_t context) {
  const auto set = ps::TokenDataset::make("tokens", tokens, context, int64_t{1} << 31);
  TROUPE_CHECK(set.has_value() == (tokens.count() > context));
  if (!set) return;
  std::vector<uint32_t> all(static_cast<size_t>((*set)->size()));
  std::iota(all.begin(), all.end(), 0u);
  Tensor inputs = Tensor::empty({(*set)->size(), context}, DType::i32), labels = inputs.clone();
  (*set)->gather(all, inputs, labels);
  const auto count = static_cast<size_t>(inputs.count());
  TROUPE_CHECK(std::memcmp(inputs.raw(), tokens.raw(), 4 * count) == 0);
  TROUPE_CHECK(std::memcmp(labels.raw(), tokens.raw() + 4, 4 * count) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file, again;
  const std::string_view input = text_of(data, size);
  const auto loaded = ps::read_tokens(file.holding(input));
  if (!input.starts_with("\x1f\x8b")) {
    const auto inflated = ps::read_tokens(again.holding(gzipped(input)));
    TROUPE_CHECK(loaded.has_value() == inflated.has_value());
    TROUPE_CHECK(!loaded || same(*loaded, *inflated));
  }
  if (!loaded) {
    promise_named(loaded.error(), file.path());
    TROUPE_CHECK(loaded.error().kind == ErrorKind::corrupt);
    return 0;
  }
  const auto written = ps::read_tokens(again.holding(file_of(*loaded)));
  TROUPE_CHECK(written.has_value() && same(*loaded, *written));
  for (const int64_t context : {1, 7}) promise_samples(*loaded, context);
  return 0;
}
