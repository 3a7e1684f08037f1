#include <troupe/ps/checkpoint/checkpoint_store.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {

namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp";

/// "step-00001234" is attempt 1, "step-00001234.2" attempt 2.
struct Name {
  Step step = 0;
  int64_t attempt = 1;
  std::string text;
  bool operator<(const Name& other) const {
    return std::tie(step, attempt) < std::tie(other.step, other.attempt);
  }
};

std::string name_text(Step step, int64_t attempt) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return cat(kPrefix, digits, attempt > 1 ? cat('.', attempt) : std::string());
}

std::optional<Name> parse_name(const std::string& text) {
  if (!text.starts_with(kPrefix)) return {};
  Name name{0, 1, text};
  const char *at = text.data() + kPrefix.size(), *end = text.data() + text.size();
  const auto take = [&](int64_t& number) {
    const auto read = std::from_chars(at, end, number);
    at = read.ptr;
    return read.ec == std::errc{};
  };
  bool sound = take(name.step);
  if (sound && at != end && *at == '.') sound = take((++at, name.attempt));
  // One spelling a checkpoint: "step-7" is somebody else's folder.
  if (!sound || at != end || name_text(name.step, name.attempt) != text) return {};
  return name;
}

/// Checkpoints in a folder, oldest first; none where there is no folder.
Result<std::vector<Name>> names_in(FileOps& files, const std::string& folder) {
  const auto texts = files.list(folder);
  if (!texts && texts.error().kind == ErrorKind::missing) return std::vector<Name>{};
  if (!texts) return tl::unexpected(texts.error());
  std::vector<Name> names;
  for (const std::string& text : *texts)
    if (auto name = parse_name(text)) names.push_back(std::move(*name));
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t bytes_of(const CheckpointContent& c) {
  uint64_t bytes = 0;
  for (const LayerSpec& layer : c.layout.layers) bytes += static_cast<uint64_t>(layer.count) * sizeof(float);
  return bytes * (1 + c.state_names.size());
}

CheckpointSearch newest_of(const std::shared_ptr<FileOps>& files,
                           const std::vector<std::string>& oldest_first) {
  CheckpointSearch search;
  for (auto folder = oldest_first.rbegin(); folder != oldest_first.rend() && !search.newest; ++folder) {
    auto checkpoint = Checkpoint::open_verified(files, *folder);
    if (checkpoint)
      search.newest = std::move(*checkpoint);
    else
      search.skipped.push_back({*folder, checkpoint.error().message});
  }
  return search;
}

Result<std::vector<std::string>> checkpoints_in(FileOps& files, const std::string& folder) {
  const auto names = names_in(files, folder);
  if (!names) return tl::unexpected(names.error());
  std::vector<std::string> out;
  for (const Name& name : *names) out.push_back(join_path(folder, name.text));
  return out;
}

/// Folders of checkpoints that `path` stands for: a checkpoint itself, those in it, those in its
/// `checkpoints`.
Result<std::vector<std::string>> folders_of(FileOps& files, const std::string& path) {
  const auto contents = files.list(path);
  if (!contents) return tl::unexpected(contents.error());
  const auto has = [&](const char* name) {
    return std::find(contents->begin(), contents->end(), name) != contents->end();
  };
  if (has("manifest.json")) return std::vector<std::string>{path};
  return checkpoints_in(files, has("checkpoints") ? join_path(path, "checkpoints") : path);
}

Result<std::vector<CheckpointInfo>> describe_all(const std::shared_ptr<FileOps>& files,
                                                 const std::string& path, bool verified) {
  const auto folders = folders_of(*files, path);
  if (!folders) return tl::unexpected(folders.error());
  std::vector<CheckpointInfo> out;
  for (const std::string& folder : *folders) {
    CheckpointInfo& info = out.emplace_back();
    info.folder = folder;
    const auto c = verified ? Checkpoint::open_verified(files, folder) : Checkpoint::open(files, folder);
    if (!c) {
      info.error = c.error().message;
      continue;
    }
    info.step = c->manifest().step;
    info.epoch = c->manifest().dealer.epoch;
    info.bytes = c->bytes();
  }
  return out;
}

}  // namespace

CheckpointStore::CheckpointStore(std::shared_ptr<FileOps> files, Options options)
    : files_(std::move(files)), options_(std::move(options)) {
  TROUPE_CHECK(options_.keep >= 1, "keep ", options_.keep);
}

Result<std::string> CheckpointStore::unused_name(Step step) const {
  const auto names = names_in(*files_, options_.folder);
  if (!names) return tl::unexpected(names.error());
  int64_t attempt = 1;
  for (const Name& name : *names)
    if (name.step == step) attempt = std::max(attempt, name.attempt + 1);
  return name_text(step, attempt);
}

Status CheckpointStore::remove_leftovers() {
  const auto names = files_->list(options_.folder);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names)
    if (name.starts_with(kPrefix) && name.ends_with(kTemporary))
      TROUPE_TRY(remove_with_files(*files_, join_path(options_.folder, name)));
  return {};
}

Status CheckpointStore::write_and_publish(const std::string& name, const CheckpointContent& content,
                                          Saved& saved) {
  saved.folder = join_path(options_.folder, name);
  const std::string temporary = saved.folder + std::string(kTemporary);
  if (const auto left = files_->free_bytes(options_.folder); left && *left < bytes_of(content))
    return fail(ErrorKind::exhausted, cat("the disk of ", options_.folder, " has ", *left,
                                          " bytes left, a checkpoint takes ", bytes_of(content)));
  TROUPE_TRY(files_->make_folder(temporary));
  const auto bytes = write_checkpoint(*files_, temporary, content);
  if (!bytes) return tl::unexpected(bytes.error());
  saved.bytes = *bytes;
  TROUPE_TRY(files_->sync_folder(temporary));
  TROUPE_TRY(files_->rename(temporary, saved.folder));
  TROUPE_TRY(files_->sync_folder(options_.folder));
  return {};
}

/// A folder is renamed before its files go, so that a checkpoint is never half there under its own name.
Status CheckpointStore::prune(const std::string& saved_name) {
  const auto names = names_in(*files_, options_.folder);
  if (!names) return tl::unexpected(names.error());
  const auto saved =
      std::find_if(names->begin(), names->end(), [&](const Name& n) { return n.text == saved_name; });
  TROUPE_CHECK(saved != names->end(), saved_name, " is not there");
  const auto kept_from = saved - std::min<int64_t>(saved - names->begin(), options_.keep - 1);
  for (auto name = names->begin(); name != names->end(); ++name) {
    if (name >= kept_from && name <= saved) continue;
    const std::string path = join_path(options_.folder, name->text), doomed = path + std::string(kTemporary);
    TROUPE_TRY(files_->rename(path, doomed));
    TROUPE_TRY(remove_with_files(*files_, doomed));
  }
  return {};
}

Result<CheckpointStore::Saved> CheckpointStore::save(const CheckpointContent& content) {
  const std::string context = cat("checkpoint of step ", content.step, " not saved");
  if (const auto made = files_->make_folder(options_.folder); !made) return fail(context, made.error());
  // A leftover that cannot be removed stops nothing as long as the new checkpoint finds room.
  const auto cleaned = remove_leftovers();
  const auto name = unused_name(content.step);
  if (!name) return fail(context, name.error());
  Saved saved;
  if (const auto written = write_and_publish(*name, content, saved); !written) {
    (void)remove_leftovers();
    return fail(context, written.error());
  }
  const auto pruned = prune(*name);
  if (!cleaned) saved.warning = cleaned.error().message;
  if (!pruned) saved.warning = pruned.error().message;
  return saved;
}

Result<CheckpointSearch> CheckpointStore::newest_valid() const {
  const auto folders = checkpoints_in(*files_, options_.folder);
  if (!folders) return tl::unexpected(folders.error());
  return newest_of(files_, *folders);
}

Result<std::vector<CheckpointInfo>> list_checkpoints(std::shared_ptr<FileOps> files,
                                                     const std::string& path) {
  return describe_all(files, path, false);
}

Result<std::vector<CheckpointInfo>> verify_checkpoints(std::shared_ptr<FileOps> files,
                                                       const std::string& path) {
  return describe_all(files, path, true);
}

Result<CheckpointSearch> find_checkpoint(std::shared_ptr<FileOps> files, const std::string& path) {
  const auto folders = folders_of(*files, path);
  if (!folders) return tl::unexpected(folders.error());
  CheckpointSearch search = newest_of(files, *folders);
  if (search.newest) return search;
  if (folders->empty())
    return fail(ErrorKind::missing,
                cat(path, " holds no checkpoint; name a checkpoint, a folder of them or a run's folder"));
  std::string reasons;
  for (const auto& skipped : search.skipped) reasons += cat("; ", skipped.reason);
  return fail(ErrorKind::corrupt, cat(path, " holds no valid checkpoint", reasons));
}

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

Result<Exported> export_parameters(std::shared_ptr<FileOps> files, const std::string& path,
                                   const std::string& file) {
  const auto search = find_checkpoint(files, path);
  if (!search) return tl::unexpected(search.error());
  const Checkpoint& checkpoint = *search->newest;
  const std::string temporary = file + std::string(kTemporary);
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
