#include <troupe/ps/data/cifar.h>

#include <algorithm>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/dataset.h>

using namespace troupe;
using namespace troupe::fuzz;

/// What loads is every record of the file, byte by byte; a file that is no whole number of records does not load.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kImageBytes = 3072;
  static MemoryFile file;
  const std::string_view input = text_of(data, size);
  file.holding(input);
  for (const size_t label_bytes : {size_t{1}, size_t{2}}) {
    const size_t record = label_bytes + kImageBytes;
    const auto samples = ps::read_cifar(label_bytes == 1 ? ps::Cifar::ten : ps::Cifar::hundred, {file.path()});
    TROUPE_CHECK(samples.has_value() == (size > 0 && size % record == 0 && !input.starts_with("\x1f\x8b")));
    if (!samples) {
      promise_named(samples.error(), file.path());
      continue;
    }
    for (size_t i = 0; i < size / record; ++i) {
      const uint8_t* at = data + i * record;
      TROUPE_CHECK(samples->labels.data<int32_t>()[i] == at[label_bytes - 1]);
      TROUPE_CHECK(std::equal(at + label_bytes, at + record, samples->values.data<uint8_t>() + i * kImageBytes));
    }
    promise_usable(*samples);
  }
  return 0;
}
