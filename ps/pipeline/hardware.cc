#include <troupe/ps/pipeline/hardware.h>

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/config/nearest.h>
#include <troupe/ps/config/read_text.h>
#include <troupe/ps/config/toml_file.h>

namespace troupe::ps {
namespace {

using Field = std::variant<std::string Hardware::*, int64_t Hardware::*, double Hardware::*>;

struct Key {
  const char* name;
  Field field;
  double most = 1e9;  ///< of a number, which is more than 0
};

const std::vector<Key>& all_keys() {
  static const std::vector<Key> keys = {
      {"name", &Hardware::name},
      {"devices", &Hardware::devices, 1e6},
      {"devices_per_node", &Hardware::devices_per_node, 1e6},
      {"memory_gb", &Hardware::memory_gb},
      {"peak_tflops", &Hardware::peak_tflops},
      {"efficiency", &Hardware::efficiency, 1},
      {"bytes_a_value", &Hardware::bytes_a_value, 4},
      {"memory_gb_per_s", &Hardware::memory_gb_per_s},
      {"link_gb_per_s", &Hardware::link_gb_per_s},
      {"network_gb_per_s", &Hardware::network_gb_per_s},
      {"latency_us", &Hardware::latency_us},
  };
  return keys;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : all_keys()) names.emplace_back(key.name);
  return names;
}

Status assign(const Key& key, const RawValue& value, Hardware& hardware) {
  const auto wrong = [&](const std::string& what) {
    return fail(ErrorKind::invalid, cat(key.name, " must be ", what));
  };
  if (const auto* text = std::get_if<std::string Hardware::*>(&key.field)) {
    if (!std::holds_alternative<std::string>(value)) return wrong("a text");
    hardware.*(*text) = std::get<std::string>(value);
    return {};
  }
  const bool whole = std::holds_alternative<int64_t>(value);
  if (!whole && !std::holds_alternative<double>(value)) return wrong("a number");
  const double number = whole ? static_cast<double>(std::get<int64_t>(value)) : std::get<double>(value);
  if (!(number > 0 && number <= key.most)) return wrong(cat("more than 0 and at most ", key.most, ", not ", number));
  if (const auto* real = std::get_if<double Hardware::*>(&key.field)) {
    hardware.*(*real) = number;
    return {};
  }
  if (!whole) return wrong(cat("a whole number, not ", number));
  hardware.*std::get<int64_t Hardware::*>(key.field) = std::get<int64_t>(value);
  return {};
}

Status take(const TomlEntry& entry, Hardware& hardware, std::vector<std::string>& missing) {
  const auto& keys = all_keys();
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return entry.key == k.name; });
  if (key == keys.end()) {
    const std::string near = nearest_word(entry.key, key_names());
    return fail(ErrorKind::invalid, cat("unknown key ", entry.key, near.empty() ? "" : "; did you mean " + near + "?"));
  }
  std::erase(missing, entry.key);
  return assign(*key, entry.value, hardware);
}

}  // namespace

Result<Hardware> parse_hardware(std::string_view toml, const std::string& name) {
  const auto file = parse_toml(toml, name);
  if (!file) return tl::unexpected(file.error());
  Hardware hardware;
  std::vector<std::string> missing = key_names();
  for (const TomlEntry& entry : file->entries)
    if (const auto taken = take(entry, hardware, missing); !taken)
      return fail(cat(name, ':', entry.key_place.line, ':', entry.key_place.column), taken.error());
  if (!missing.empty()) {
    std::string list;
    for (const std::string& key : missing) list += (list.empty() ? "" : ", ") + key;
    return fail(ErrorKind::invalid,
                cat(name, ": a description of hardware also needs ", list, "; configs/hardware has examples"));
  }
  if (hardware.bytes_a_value != 2 && hardware.bytes_a_value != 4)
    return fail(ErrorKind::invalid,
                cat(name, ": bytes_a_value = ", hardware.bytes_a_value, ": 2 (bf16, fp16) or 4 (fp32)"));
  if (hardware.devices_per_node > hardware.devices || hardware.devices % hardware.devices_per_node != 0)
    return fail(ErrorKind::invalid, cat(name, ": devices = ", hardware.devices,
                                        " is no multiple of devices_per_node = ", hardware.devices_per_node));
  return hardware;
}

Result<Hardware> read_hardware(const std::string& path) {
  const auto text = read_text(path, "the hardware file", "a TOML file such as configs/hardware/laptop.toml");
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_hardware(*text, path);
}

}  // namespace troupe::ps
