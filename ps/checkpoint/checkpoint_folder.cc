#include <troupe/ps/checkpoint/checkpoint_folder.h>

#include <algorithm>
#include <charconv>

#include <troupe/kernels/base/text.h>

namespace troupe::ps {
namespace {

std::optional<CheckpointName> parse_name(const std::string& text) {
  if (!text.starts_with(kCheckpointPrefix)) return {};
  CheckpointName name{0, 1, text};
  const char *at = text.data() + kCheckpointPrefix.size(), *end = text.data() + text.size();
  const auto take = [&](int64_t& number) {
    const auto read = std::from_chars(at, end, number);
    at = read.ptr;
    return read.ec == std::errc{};
  };
  bool sound = take(name.step);
  if (sound && at != end && *at == '.') sound = take((++at, name.attempt));
  // One spelling a checkpoint: "step-7" is somebody else's folder.
  if (!sound || at != end || checkpoint_name(name.step, name.attempt) != text) return {};
  return name;
}

CheckpointSearch newest_of(const std::shared_ptr<FileOps>& files, const std::vector<std::string>& oldest_first) {
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
  const auto names = checkpoint_names(files, folder);
  if (!names) return tl::unexpected(names.error());
  std::vector<std::string> out;
  for (const CheckpointName& name : *names) out.push_back(join_path(folder, name.text));
  return out;
}

/// Folders of checkpoints that `path` stands for: a checkpoint itself, those in it, those in its `checkpoints`.
Result<std::vector<std::string>> folders_of(FileOps& files, const std::string& path) {
  const auto contents = files.list(path);
  if (!contents) return tl::unexpected(contents.error());
  const auto has = [&](const char* name) {
    return std::find(contents->begin(), contents->end(), name) != contents->end();
  };
  if (has("manifest.json")) return std::vector<std::string>{path};
  return checkpoints_in(files, has("checkpoints") ? join_path(path, "checkpoints") : path);
}

Result<std::vector<CheckpointInfo>> describe_all(const std::shared_ptr<FileOps>& files, const std::string& path,
                                                 bool verified) {
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

std::string checkpoint_name(Step step, int64_t attempt) {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return cat(kCheckpointPrefix, digits, attempt > 1 ? cat('.', attempt) : std::string());
}

Result<std::vector<CheckpointName>> checkpoint_names(FileOps& files, const std::string& folder) {
  const auto texts = files.list(folder);
  if (!texts && texts.error().kind == ErrorKind::missing) return std::vector<CheckpointName>{};
  if (!texts) return tl::unexpected(texts.error());
  std::vector<CheckpointName> names;
  for (const std::string& text : *texts)
    if (auto name = parse_name(text)) names.push_back(std::move(*name));
  std::sort(names.begin(), names.end());
  return names;
}

Result<CheckpointSearch> newest_checkpoint(const std::shared_ptr<FileOps>& files, const std::string& folder) {
  const auto folders = checkpoints_in(*files, folder);
  if (!folders) return tl::unexpected(folders.error());
  return newest_of(files, *folders);
}

Result<std::vector<CheckpointInfo>> list_checkpoints(const std::shared_ptr<FileOps>& files, const std::string& path) {
  return describe_all(files, path, false);
}

Result<std::vector<CheckpointInfo>> verify_checkpoints(const std::shared_ptr<FileOps>& files,
                                                       const std::string& path) {
  return describe_all(files, path, true);
}

Result<CheckpointSearch> find_checkpoint(const std::shared_ptr<FileOps>& files, const std::string& path) {
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

}  // namespace troupe::ps
