#include <troupe/ps/checkpoint/checkpoint_store.h>

#include <algorithm>
#include <string_view>

#include <troupe/kernels/base/check.h>

namespace troupe::ps {
namespace {

constexpr std::string_view kTemporary = ".tmp";

uint64_t bytes_of(const CheckpointContent& c) {
  uint64_t bytes = 0;
  for (const LayerSpec& layer : c.layout.layers) bytes += static_cast<uint64_t>(layer.count) * sizeof(float);
  return bytes * (1 + c.state_names.size());
}

}  // namespace

CheckpointStore::CheckpointStore(std::shared_ptr<FileOps> files, Options options)
    : files_(std::move(files)), options_(std::move(options)) {
  TROUPE_CHECK(options_.keep >= 1, "keep ", options_.keep);
}

Result<std::string> CheckpointStore::unused_name(Step step) const {
  const auto names = checkpoint_names(*files_, options_.folder);
  if (!names) return tl::unexpected(names.error());
  int64_t attempt = 1;
  for (const CheckpointName& name : *names)
    if (name.step == step) attempt = std::max(attempt, name.attempt + 1);
  return checkpoint_name(step, attempt);
}

Status CheckpointStore::remove_leftovers() {
  const auto names = files_->list(options_.folder);
  if (!names) return tl::unexpected(names.error());
  for (const std::string& name : *names)
    if (name.starts_with(kCheckpointPrefix) && name.ends_with(kTemporary))
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
  const auto names = checkpoint_names(*files_, options_.folder);
  if (!names) return tl::unexpected(names.error());
  const auto saved =
      std::find_if(names->begin(), names->end(), [&](const CheckpointName& n) { return n.text == saved_name; });
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
  return newest_checkpoint(files_, options_.folder);
}

}  // namespace troupe::ps
