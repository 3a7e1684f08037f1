#include <troupe/ps/checkpoint/safetensors.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/disk.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// Entries lie one behind the other from the header's end to the file's, and every one can be read or is refused for
/// its type.
void promise_entries(const ps::SafetensorsFile& file, std::string_view input) {
  uint64_t length = 0;
  std::memcpy(&length, input.data(), 8);
  uint64_t at = 8 + length;
  for (const auto& entry : file.entries()) {
    TROUPE_CHECK(entry.begin == at && entry.end >= entry.begin && entry.end <= input.size());
    at = entry.end;
    TROUPE_CHECK(file.find(entry.name) == &entry);
    const auto tensor = file.read(entry.name);
    TROUPE_CHECK(tensor || tensor.error().kind == ErrorKind::invalid, (tensor ? "" : tensor.error().message));
    if (tensor && tensor->bytes() > 0)
      TROUPE_CHECK(std::memcmp(tensor->raw(), input.data() + entry.begin, tensor->bytes()) == 0);
  }
  TROUPE_CHECK(at == input.size());
}

/// Written again, the tensors are the same bytes in the same order.
void promise_rewritable(const ps::SafetensorsFile& file) {
  test::MemoryDisk disk;
  std::vector<ps::TensorEntry> entries;
  std::vector<Tensor> tensors;
  for (const auto& entry : file.entries()) {
    const auto tensor = file.read(entry.name);
    if (!tensor) continue;
    entries.push_back({entry.name, tensor->dtype(), tensor->shape()});
    tensors.push_back(*tensor);
  }
  auto writer = ps::SafetensorsWriter::create(disk, "again", entries);
  TROUPE_CHECK(writer.has_value(), (writer ? "" : writer.error().message));
  for (const Tensor& tensor : tensors) TROUPE_CHECK(writer->append({tensor.raw(), tensor.bytes()}).has_value());
  TROUPE_CHECK(writer->finish().has_value());
  const auto again = ps::SafetensorsFile::open(disk, "again");
  TROUPE_CHECK(again.has_value(), (again ? "" : again.error().message));
  TROUPE_CHECK(again->entries().size() == entries.size());
  for (size_t i = 0; i < entries.size(); ++i) TROUPE_CHECK(same(*again->read(entries[i].name), tensors[i]));
}

void run(std::string_view input) {
  test::MemoryDisk disk;
  put(disk, "input", input);
  const auto file = ps::SafetensorsFile::open(disk, "input");
  if (!file) {
    promise_named(file.error(), "input");
    TROUPE_CHECK(file.error().kind == ErrorKind::corrupt);
    return;
  }
  promise_entries(*file, input);
  promise_rewritable(*file);
}

}  // namespace

/// The input as it is, and the same with a length that makes all of its JSON the header: most inputs die of a wrong
/// length otherwise.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  run(input);
  const size_t brace = input.rfind('}');
  if (size < 9 || brace == std::string_view::npos || brace < 8) return 0;
  std::string mended(input);
  const uint64_t length = brace + 1 - 8;
  std::memcpy(mended.data(), &length, 8);
  if (mended != input) run(mended);
  return 0;
}
