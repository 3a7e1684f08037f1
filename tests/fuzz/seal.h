#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include <troupe/ps/checkpoint/digest.h>

namespace troupe::fuzz {

using Json = nlohmann::ordered_json;

inline std::string digest(std::string_view bytes) {
  ps::Digest digest;
  digest.update(std::as_bytes(std::span(bytes)));
  return digest.hex();
}

/// A manifest that carries the right checksum of itself, as manifest.h says. Written once more here on purpose: a
/// fuzzed manifest never matches its checksum, and what lies behind it would not be reached.
inline std::optional<std::string> sealed(Json json) {
  if (!json.is_object()) return {};
  try {
    json.erase("checksum");
    json["checksum"] = digest(json.dump(1));
    return json.dump(1) + '\n';
  } catch (const Json::exception&) {  // not UTF-8
    return {};
  }
}

/// Inputs nested deeper than this are left alone: this JSON recurses when it is written.
inline Json parsed(std::string_view text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) { return depth < 100; }, false);
}

}  // namespace troupe::fuzz
