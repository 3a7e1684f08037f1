#include <troupe/ps/checkpoint/manifest.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/seal.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

/// What loads is written to bytes that load to the same bytes.
void run(const std::string& text) {
  const auto manifest = ps::parse_manifest(text, "m.json");
  if (!manifest) return promise_named(manifest.error(), "m.json");
  for (size_t i = 0; i < manifest->layers.size(); ++i) {
    int64_t count = 0;
    for (const ParamSpec& p : manifest->layers[i].params) count += p.shape.count();
    TROUPE_CHECK(count == manifest->layers[i].count);
    TROUPE_CHECK(count == 0 || manifest->updates[i].back().end == count);
  }
  const auto written = ps::to_json(*manifest);
  TROUPE_CHECK(written.has_value(), (written ? "" : written.error().message));
  const auto again = ps::parse_manifest(*written, "m.json");
  TROUPE_CHECK(again.has_value(), (again ? "" : again.error().message));
  TROUPE_CHECK(*ps::to_json(*again) == *written);
  TROUPE_CHECK(ps::check_fits(*again, manifest->layers, manifest->optimizer, manifest->state_names).has_value());
}

}  // namespace

/// The input as it is, and the same with the right checksum.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(text_of(data, size));
  run(text);
  const Json json = parsed(text);
  if (json.is_discarded()) return 0;
  if (const auto mended = sealed(json); mended && *mended != text) run(*mended);
  return 0;
}
