#include <troupe/ps/checkpoint/checkpoint.h>

#include <tests/fuzz/contract.h>
#include <tests/fuzz/disk.h>
#include <tests/fuzz/seal.h>

using namespace troupe;
using namespace troupe::fuzz;

namespace {

struct Files {
  std::string parameters, optimizer, manifest;
};

/// "u32 bytes of parameters, u32 bytes of the optimizer's state, both files, the manifest", as seeds.py writes it.
Files files_of(std::string_view input) {
  uint32_t lengths[2] = {0, 0};
  std::memcpy(lengths, input.data(), std::min(input.size(), sizeof lengths));
  input.remove_prefix(std::min(input.size(), sizeof lengths));
  const auto take = [&](size_t length) {
    const std::string_view part = input.substr(0, length);
    input.remove_prefix(part.size());
    return std::string(part);
  };
  Files files;
  files.parameters = take(lengths[0]);
  files.optimizer = take(lengths[1]);
  files.manifest = take(input.size());
  return files;
}

/// The manifest with the sizes and checksums that the other files really have, and its own.
std::optional<std::string> mended(const Files& files) {
  Json json = parsed(files.manifest);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array() || json["files"].size() != 2) return {};
  const std::string* bytes[2] = {&files.parameters, &files.optimizer};
  for (size_t i = 0; i < 2; ++i) {
    if (!json["files"][i].is_object()) return {};
    json["files"][i]["bytes"] = bytes[i]->size();
    json["files"][i]["digest"] = digest(*bytes[i]);
  }
  return sealed(std::move(json));
}

ps::Layout whole_layers(const ps::Manifest& manifest) {
  ps::Layout layout;
  layout.layers = manifest.layers;
  layout.servers = 1;
  for (ps::LayerId layer = 0; layer < layout.layers.size(); ++layer)
    layout.slices.push_back({static_cast<ps::SliceId>(layer), layer, 0, layout.layers[layer].count, 0});
  return layout;
}

std::vector<ps::SliceState> slices_of(const ps::Checkpoint& checkpoint, const ps::Layout& layout) {
  std::vector<ps::SliceState> slices;
  for (const ps::Slice& slice : layout.slices) {
    auto state = checkpoint.slice(slice);
    TROUPE_CHECK(state.has_value(), (state ? "" : state.error().message));
    slices.push_back(std::move(*state));
  }
  return slices;
}

/// What is verified can be read whole, and written again it is a checkpoint of the same values.
void run(const Files& files) {
  const auto disk = std::make_shared<test::MemoryDisk>();
  for (const char* folder : {"a", "b"}) TROUPE_CHECK(disk->make_folder(folder).has_value());
  put(*disk, "a/parameters.safetensors", files.parameters);
  put(*disk, "a/optimizer.safetensors", files.optimizer);
  put(*disk, "a/manifest.json", files.manifest);
  const auto loaded = ps::Checkpoint::open_verified(disk, "a");
  if (!loaded) return promise_named(loaded.error(), "a/");
  const ps::Manifest& m = loaded->manifest();
  const ps::Layout layout = whole_layers(m);
  const auto slices = slices_of(*loaded, layout);
  const auto written =
      ps::write_checkpoint(*disk, "b", {layout, slices, m.step, m.dealer, m.optimizer, m.state_names, m.metrics});
  TROUPE_CHECK(written.has_value(), (written ? "" : written.error().message));
  const auto again = ps::Checkpoint::open_verified(disk, "b");
  TROUPE_CHECK(again.has_value(), (again ? "" : again.error().message));
  TROUPE_CHECK(ps::check_fits(again->manifest(), m.layers, m.optimizer, m.state_names).has_value());
  const auto read = slices_of(*again, layout);
  for (size_t i = 0; i < slices.size(); ++i) {
    TROUPE_CHECK(same(read[i].values, slices[i].values) && read[i].updates == slices[i].updates);
    for (size_t s = 0; s < slices[i].state.size(); ++s) TROUPE_CHECK(same(read[i].state[s], slices[i].state[s]));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Files files = files_of(text_of(data, size));
  run(files);
  const auto manifest = mended(files);
  if (!manifest || *manifest == files.manifest) return 0;
  files.manifest = *manifest;
  run(files);
  return 0;
}
