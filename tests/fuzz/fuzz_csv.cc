#include <troupe/ps/data/csv.h>

#include <charconv>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/dataset.h>
#include <tests/fuzz/gzip.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

std::string text_of_number(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// The plainest table of the same numbers, the label last.
std::string file_of(const ps::Samples& samples) {
  const int64_t width = samples.values.shape()[1];
  std::string out;
  for (int64_t i = 0; i < samples.labels.count(); ++i) {
    for (int64_t c = 0; c < width; ++c)
      out += text_of_number(samples.values.data<float>()[i * width + c]) + ',';
    out += std::to_string(samples.labels.data<int32_t>()[i]) + '\n';
  }
  return out;
}

/// file:line:column, both from 1, within the file.
void promise_place(const std::string& message, const std::string& path, std::string_view input) {
  TROUPE_CHECK(message.starts_with(path), message);
  if (message[path.size()] != ':') return;  // about the whole file
  const char *at = message.data() + path.size() + 1, *end = message.data() + message.size();
  size_t line = 0, column = 0;
  const auto first = std::from_chars(at, end, line);
  TROUPE_CHECK(first.ec == std::errc{} && *first.ptr == ':', message);
  TROUPE_CHECK(std::from_chars(first.ptr + 1, end, column).ec == std::errc{}, message);
  for (size_t skipped = 1; skipped < line; ++skipped) {
    const size_t newline = input.find('\n');
    TROUPE_CHECK(newline != std::string_view::npos, "there is no such line: ", message);
    input.remove_prefix(newline + 1);
  }
  TROUPE_CHECK(column >= 1 && column <= std::min(input.find('\n'), input.size()) + 1, "no such column: ", message);
}

}  // namespace

/// The input's first line, up to a NUL, may name the label column. What loads is loaded from the plainest table of the
/// same numbers, and from a compressed one; an error says where in the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file, again;
  std::string_view input = text_of(data, size);
  std::string label;
  if (const size_t nul = input.substr(0, 20).find('\0'); nul != std::string_view::npos) {
    label = input.substr(0, nul);
    input.remove_prefix(nul + 1);
  }
  const auto samples = ps::read_csv(file.holding(input), label);
  if (!samples) {
    if (!input.starts_with("\x1f\x8b")) promise_place(samples.error().message, file.path(), input);
    return 0;
  }
  for (const std::string& written : {file_of(*samples), gzipped(file_of(*samples))}) {
    const auto read = ps::read_csv(again.holding(written));
    TROUPE_CHECK(read.has_value(), (read ? "" : read.error().message));
    TROUPE_CHECK(same(read->values, samples->values) && same(read->labels, samples->labels));
  }
  promise_usable(*samples);
  return 0;
}
