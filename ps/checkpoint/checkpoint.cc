#include <troupe/ps/checkpoint/checkpoint.h>

#include <algorithm>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/checkpoint/assemble.h>

namespace troupe::ps {

namespace {

constexpr const char* kParameters = "parameters.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kManifest = "manifest.json";
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 28;

/// A tensor of the file, and which vector of the slices it comes from.
struct Source {
  TensorEntry entry;
  LayerId layer = 0;
  int64_t begin = 0;      ///< in the layer's flat vector
  int state_vector = -1;  ///< -1: the parameters
};

std::vector<Source> sorted(std::vector<Source> sources) {
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.entry.name < b.entry.name; });
  return sources;
}

std::vector<Source> parameter_sources(const std::vector<LayerSpec>& layers) {
  std::vector<Source> out;
  for (LayerId layer = 0; layer < layers.size(); ++layer)
    for (const ParamSpec& p : layers[layer].params)
      out.push_back({{p.name, DType::f32, p.shape}, layer, p.offset, -1});
  return sorted(std::move(out));
}

std::vector<Source> optimizer_sources(const std::vector<LayerSpec>& layers,
                                      const std::vector<std::string>& names) {
  std::vector<Source> out;
  for (const Source& parameter : parameter_sources(layers))
    for (size_t s = 0; s < names.size(); ++s) {
      out.push_back(parameter);
      out.back().entry.name += '/' + names[s];
      out.back().state_vector = static_cast<int>(s);
    }
  return sorted(std::move(out));
}

Result<Manifest::File> write_tensors(FileOps& files, const std::string& folder, const std::string& name,
                                     const Layout& layout, const SlicesById& slices,
                                     const std::vector<Source>& sources) {
  std::vector<TensorEntry> entries;
  for (const Source& s : sources) entries.push_back(s.entry);
  auto writer = SafetensorsWriter::create(files, join_path(folder, name), entries);
  if (!writer) return tl::unexpected(writer.error());
  for (const Source& s : sources)
    for (const Piece& piece : pieces_of(layout, s.layer, s.begin, s.begin + s.entry.shape.count())) {
      const SliceState& slice = *slices[piece.slice];
      const Tensor& t = s.state_vector < 0 ? slice.values : slice.state[static_cast<size_t>(s.state_vector)];
      TROUPE_TRY(writer->append(
          std::as_bytes(std::span(t.data<float>() + piece.offset, static_cast<size_t>(piece.count)))));
    }
  const auto written = writer->finish();
  if (!written) return tl::unexpected(written.error());
  return Manifest::File{name, written->bytes, written->digest};
}

Result<Manifest> read_manifest(FileOps& files, const std::string& folder) {
  const std::string path = join_path(folder, kManifest);
  const auto file = files.open(path);
  if (!file) return tl::unexpected(file.error());
  if ((*file)->size() > kMaxManifestBytes)
    return fail(ErrorKind::corrupt, cat(path, " has ", (*file)->size(), " bytes, too many for a manifest"));
  std::string text(static_cast<size_t>((*file)->size()), '\0');
  TROUPE_TRY((*file)->read(0, std::as_writable_bytes(std::span(text))));
  auto manifest = parse_manifest(text, path);
  if (manifest && (manifest->files.size() != 2 || manifest->files[0].name != kParameters ||
                   manifest->files[1].name != kOptimizer))
    return fail(ErrorKind::corrupt, cat(path, " does not speak of ", kParameters, " and ", kOptimizer));
  return manifest;
}

/// The file that holds exactly these tensors, which are sorted by name.
Status check_holds(const SafetensorsFile& file, const std::string& path, const std::vector<Source>& sources) {
  const auto same_name = [](const Source& a, const Source& b) { return a.entry.name == b.entry.name; };
  const auto twice = std::adjacent_find(sources.begin(), sources.end(), same_name);
  if (twice != sources.end())
    return fail(ErrorKind::corrupt, cat("the manifest beside ", path, " speaks twice of ", twice->entry.name));
  if (file.entries().size() != sources.size())
    return fail(ErrorKind::corrupt, cat(path, " holds ", file.entries().size(),
                                        " tensors, its manifest speaks of ", sources.size()));
  for (const Source& s : sources) {
    const auto* entry = file.find(s.entry.name);
    const auto shape = s.entry.shape.span();
    if (!entry || entry->dtype != name_of(s.entry.dtype) ||
        !std::equal(entry->shape.begin(), entry->shape.end(), shape.begin(), shape.end()))
      return fail(ErrorKind::corrupt, cat(path, " does not hold ", s.entry.name, " as F32 ", s.entry.shape));
  }
  return {};
}

Status check_file(FileOps& files, const std::string& folder, const Manifest::File& expected) {
  const std::string path = join_path(folder, expected.name);
  const auto file = files.open(path);
  if (!file) return tl::unexpected(file.error());
  if ((*file)->size() != expected.bytes)
    return fail(ErrorKind::corrupt,
                cat(path, " has ", (*file)->size(), " bytes, ", expected.bytes, " were written"));
  const auto digest = digest_of(**file);
  if (!digest) return tl::unexpected(digest.error());
  if (*digest != expected.digest)
    return fail(ErrorKind::corrupt, cat(path, " has checksum ", *digest, ", ", expected.digest,
                                        " was written: its bytes have changed"));
  return {};
}

}  // namespace

Result<uint64_t> write_checkpoint(FileOps& files, const std::string& folder, const CheckpointContent& c) {
  const auto slices = collect(c.layout, c.slices, c.state_names.size());
  if (!slices) return tl::unexpected(slices.error());
  Manifest m{c.step, c.dealer, c.layout.layers, {}, c.optimizer, c.state_names, c.loss_scale, c.metrics, {}};
  for (LayerId layer = 0; layer < c.layout.layers.size(); ++layer)
    m.updates.push_back(update_runs(c.layout, layer, *slices));
  const auto write = [&](const char* name, const std::vector<Source>& sources) -> Status {
    auto file = write_tensors(files, folder, name, c.layout, *slices, sources);
    if (!file) return tl::unexpected(file.error());
    m.files.push_back(*file);
    return {};
  };
  TROUPE_TRY(write(kParameters, parameter_sources(c.layout.layers)));
  TROUPE_TRY(write(kOptimizer, optimizer_sources(c.layout.layers, c.state_names)));
  const auto text = to_json(m);
  if (!text) return tl::unexpected(text.error());
  TROUPE_TRY(write_file(files, join_path(folder, kManifest), *text));
  return m.files[0].bytes + m.files[1].bytes + text->size();
}

Checkpoint::Checkpoint(std::string folder, Manifest manifest, SafetensorsFile parameters,
                       SafetensorsFile optimizer)
    : folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      parameters_(std::move(parameters)),
      optimizer_(std::move(optimizer)) {}

Status Checkpoint::check_tensors() const {
  TROUPE_TRY(check_holds(parameters_, join_path(folder_, kParameters), parameter_sources(manifest_.layers)));
  return check_holds(optimizer_, join_path(folder_, kOptimizer),
                     optimizer_sources(manifest_.layers, manifest_.state_names));
}

Result<Checkpoint> Checkpoint::open(std::shared_ptr<FileOps> files, const std::string& folder) {
  auto manifest = read_manifest(*files, folder);
  if (!manifest) return tl::unexpected(manifest.error());
  auto parameters = SafetensorsFile::open(*files, join_path(folder, kParameters));
  if (!parameters) return tl::unexpected(parameters.error());
  auto optimizer = SafetensorsFile::open(*files, join_path(folder, kOptimizer));
  if (!optimizer) return tl::unexpected(optimizer.error());
  Checkpoint out(folder, std::move(*manifest), std::move(*parameters), std::move(*optimizer));
  TROUPE_TRY(out.check_tensors());
  return out;
}

Result<Checkpoint> Checkpoint::open_verified(std::shared_ptr<FileOps> files, const std::string& folder) {
  const auto manifest = read_manifest(*files, folder);
  if (!manifest) return tl::unexpected(manifest.error());
  for (const Manifest::File& file : manifest->files) TROUPE_TRY(check_file(*files, folder, file));
  return open(std::move(files), folder);
}

Status Checkpoint::read_range(const SafetensorsFile& file, const std::string& suffix, const Slice& slice,
                              Tensor& out) const {
  for (const ParamSpec& p : manifest_.layers[slice.layer].params) {
    const int64_t first = std::max(slice.begin, p.offset);
    const int64_t last = std::min(slice.end, p.offset + p.shape.count());
    if (first >= last) continue;
    const std::span<float> part(out.data<float>() + (first - slice.begin), static_cast<size_t>(last - first));
    TROUPE_TRY(file.read(p.name + suffix, first - p.offset, part));
  }
  return {};
}

Result<SliceState> Checkpoint::slice(const Slice& slice) const {
  if (slice.layer >= manifest_.layers.size() || slice.begin < 0 || slice.begin > slice.end ||
      slice.end > manifest_.layers[slice.layer].count)
    return fail(ErrorKind::invalid, cat("the checkpoint ", folder_, " has no elements [", slice.begin, ", ",
                                        slice.end, ") of layer ", slice.layer));
  SliceState out;
  out.slice = slice.id;
  out.updates = updates_in(manifest_.updates[slice.layer], slice.begin, slice.end);
  out.values = Tensor::empty({slice.count()});
  TROUPE_TRY(read_range(parameters_, "", slice, out.values));
  for (const std::string& name : manifest_.state_names) {
    out.state.push_back(Tensor::empty({slice.count()}));
    TROUPE_TRY(read_range(optimizer_, '/' + name, slice, out.state.back()));
  }
  return out;
}

uint64_t Checkpoint::bytes() const {
  return manifest_.files[0].bytes + manifest_.files[1].bytes;
}

}  // namespace troupe::ps
