#include <troupe/ps/data/idx.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/dataset.h>
#include <tests/fuzz/gzip.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

std::string file_of(const Tensor& tensor) {
  std::string out{0, 0, 8, static_cast<char>(tensor.shape().dims())};
  for (const int64_t n : tensor.shape().span())
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift & 255);
  return out.append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
}

}  // namespace

/// What loads is written to the very same bytes; compressed or not makes no difference; images and labels agree with
/// the elements.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile plain, compressed;
  const std::string_view input = text_of(data, size);
  const auto elements = ps::read_idx(plain.holding(input));
  const bool is_gzip = input.starts_with("\x1f\x8b");
  if (elements && !is_gzip) TROUPE_CHECK(file_of(*elements) == input);
  if (!elements) promise_named(elements.error(), plain.path());

  const auto inflated = ps::read_idx(compressed.holding(gzipped(input)));
  if (!is_gzip) TROUPE_CHECK(elements.has_value() == inflated.has_value());
  if (elements && inflated) TROUPE_CHECK(same(*elements, *inflated));

  const auto images = ps::read_idx_images(plain.path());
  const auto labels = ps::read_idx_labels(plain.path());
  TROUPE_CHECK(elements || (!images && !labels));
  if (!elements) return 0;
  TROUPE_CHECK(!images || images->count() == elements->count());
  TROUPE_CHECK(!labels || labels->shape() == elements->shape());
  if (images && images->shape()[0] < 1000) {
    Tensor some = Tensor::zeros({images->shape()[0]}, DType::i32);
    promise_usable({plain.path(), *images, some});
  }
  return 0;
}
