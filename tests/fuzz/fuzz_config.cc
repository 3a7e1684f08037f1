#include <troupe/ps/config/load.h>
#include <troupe/ps/config/resolved.h>

#include <tests/fuzz/contract.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

constexpr const char* kName = "fuzzed.toml";

/// A line an error, each of which says where: a place of the file, the command line, or a setting and its source.
void promise_places(const std::string& message) {
  TROUPE_CHECK(!message.empty());
  const size_t file = message.find(kName), line = message.find("command line");
  TROUPE_CHECK(file != std::string::npos || line != std::string::npos || message.find("default") != std::string::npos ||
                   message.find("[[update]]") != std::string::npos,
               "the error says of no place: ", message);
  if (file == 0) TROUPE_CHECK(std::isdigit(static_cast<unsigned char>(message[std::strlen(kName) + 1])), message);
}

}  // namespace

/// A TOML file; what stands behind a NUL is one --set. What loads is written as the resolved file, which loads to the
/// same configuration.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input = text_of(data, size);
  ps::ConfigInput source{.file_name = kName};
  if (const size_t nul = input.find('\0'); nul != std::string_view::npos) {
    source.overrides = {std::string(input.substr(nul + 1))};
    input = input.substr(0, nul);
  }
  source.file_text = input;
  const auto loaded = ps::load_config(source);
  if (!loaded) {
    promise_places(loaded.error().message);
    return 0;
  }
  const std::string resolved = ps::resolved_toml(loaded->config);
  const auto again = ps::load_config({.file_name = kName, .file_text = resolved});
  TROUPE_CHECK(again.has_value(), (again ? "" : again.error().message), '\n', resolved);
  TROUPE_CHECK(ps::resolved_toml(again->config) == resolved);
  const auto told =
      ps::load_config({.file_name = kName, .file_text = ps::resolved_toml(loaded->config, &loaded->sources)});
  TROUPE_CHECK(told.has_value(), (told ? "" : told.error().message));
  TROUPE_CHECK(ps::resolved_toml(told->config) == resolved);
  return 0;
}
