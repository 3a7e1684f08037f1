#include <troupe/ps/checkpoint/export_parameters.h>

#include <algorithm>

namespace troupe::ps {
namespace {

Result<uint64_t> copy_parameters(FileOps& files, const Checkpoint& checkpoint, const std::string& file) {
  std::vector<TensorEntry> entries;
  for (const LayerSpec& layer : checkpoint.manifest().layers)
    for (const ParamSpec& p : layer.params) entries.push_back({p.name, DType::f32, p.shape});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  auto writer = SafetensorsWriter::create(files, file, entries);
  if (!writer) return tl::unexpected(writer.error());
  std::vector<float> part(size_t{1} << 18);
  for (const TensorEntry& e : entries)
    for (int64_t at = 0; at < e.shape.count();) {
      const auto n = std::min(static_cast<int64_t>(part.size()), e.shape.count() - at);
      const std::span<float> out(part.data(), static_cast<size_t>(n));
      TROUPE_TRY(checkpoint.parameters().read(e.name, at, out));
      TROUPE_TRY(writer->append(std::as_bytes(out)));
      at += n;
    }
  const auto written = writer->finish();
  if (!written) return tl::unexpected(written.error());
  return written->bytes;
}

}  // namespace

Result<Exported> export_parameters(const std::shared_ptr<FileOps>& files, const std::string& path,
                                   const std::string& file) {
  const auto search = find_checkpoint(files, path);
  if (!search) return tl::unexpected(search.error());
  const Checkpoint& checkpoint = *search->newest;
  const std::string temporary = file + ".tmp";
  const auto publish = [&]() -> Result<uint64_t> {
    const auto bytes = copy_parameters(*files, checkpoint, temporary);
    if (!bytes) return bytes;
    TROUPE_TRY(files->rename(temporary, file));
    TROUPE_TRY(files->sync_folder(parent_path(file)));
    return bytes;
  };
  const auto bytes = publish();
  if (!bytes) {
    (void)files->remove_file(temporary);
    return fail(cat("parameters not exported to ", file), bytes.error());
  }
  return Exported{checkpoint.folder(), checkpoint.manifest().step, *bytes, search->skipped};
}

}  // namespace troupe::ps
