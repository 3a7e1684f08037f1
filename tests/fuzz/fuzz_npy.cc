#include <troupe/ps/data/npy.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/dataset.h>
#include <tests/fuzz/gzip.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// As numpy.save writes it.
std::string file_of(const Tensor& tensor) {
  const char* type = tensor.dtype() == DType::u8 ? "|u1" : tensor.dtype() == DType::i32 ? "<i4" : "<f4";
  std::string shape;
  for (const int64_t n : tensor.shape().span()) shape += std::to_string(n) + ", ";
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ') += '\n';
  std::string out = "\x93NUMPY\x01";
  out += '\0';
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return (out + header).append(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
}

using Reader = Result<Tensor> (*)(const std::string&);

/// What loads is loaded again from what numpy would have written of it, and from compressed input.
Result<Tensor> promise_of(Reader read, std::string_view input) {
  static MemoryFile file, again;
  auto loaded = read(file.holding(input));
  if (!input.starts_with("\x1f\x8b")) {
    const auto inflated = read(again.holding(gzipped(input)));
    TROUPE_CHECK(loaded.has_value() == inflated.has_value());
    TROUPE_CHECK(!loaded || same(*loaded, *inflated));
  }
  if (!loaded) {
    promise_named(loaded.error(), file.path());
    return loaded;
  }
  const auto written = read(again.holding(file_of(*loaded)));
  TROUPE_CHECK(written.has_value(), (written ? "" : written.error().message));
  TROUPE_CHECK(same(*loaded, *written));
  return loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto values = promise_of(ps::read_npy_values, text_of(data, size));
  const auto labels = promise_of(ps::read_npy_labels, text_of(data, size));
  if (!values || !labels) return 0;
  // Labels are values of few bits: both readings agree, as far as a float goes.
  TROUPE_CHECK(values->count() == labels->count());
  for (int64_t i = 0; i < labels->count() && values->dtype() == DType::f32; ++i)
    TROUPE_CHECK(values->data<float>()[i] == static_cast<float>(labels->data<int32_t>()[i]));
  return 0;
}
