#include <troupe/ps/control/recording.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/seal.h>
#include <tests/support/temp_folder.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// A folder of two recording files; what loads is recorded again to the same bytes.
void run(std::string_view dealt, std::string_view server) {
  static const test::TempFolder folder;
  static const std::string again = folder / "again";
  folder.write("dealt", dealt);
  folder.write("server-0", server);
  const auto recording = ps::read_recording(folder.path(), 1);
  if (!recording) return promise_named(recording.error(), folder.path());
  const auto recorder = ps::Recorder::create(again, 1);
  TROUPE_CHECK(recorder.has_value(), (recorder ? "" : recorder.error().message));
  for (const auto& one : recording->dealt) (*recorder)->dealt(one);
  for (const auto& event : recording->events[0]) (*recorder)->event(0, event);
  TROUPE_CHECK((*recorder)->close().has_value());
  const auto read = ps::read_recording(again, 1);
  TROUPE_CHECK(read && *read == *recording);
}

/// With the number of its records and its digest behind it, as recording.h says.
std::string ended(std::string file, size_t record_bytes) {
  const uint64_t count = file.size() < 8 ? 0 : (file.size() - 8) / record_bytes;
  file.append(reinterpret_cast<const char*>(&count), sizeof count);
  return file + digest(file);
}

}  // namespace

/// The first byte says where the input is cut in two files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input = text_of(data, size);
  if (input.empty()) return 0;
  const size_t cut = std::min<size_t>(input.size() - 1, static_cast<uint8_t>(input[0]));
  const std::string dealt(input.substr(1, cut)), server(input.substr(1 + cut));
  run(dealt, server);
  run(ended(dealt, 5), ended(server, 17));
  return 0;
}
