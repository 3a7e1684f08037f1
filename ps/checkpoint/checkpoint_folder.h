#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <troupe/ps/checkpoint/checkpoint.h>

/// What lies in a folder of checkpoints, whoever wrote it.
namespace troupe::ps {

/// A checkpoint is a folder: `step-00001234`, or `step-00001234.2` when a resumed run reached the step of one that was
/// there already. Whatever has another name, or the same number in another spelling, is somebody else's.
struct CheckpointName {
  Step step = 0;
  int64_t attempt = 1;
  std::string text;
  bool operator<(const CheckpointName& other) const {
    return std::tie(step, attempt) < std::tie(other.step, other.attempt);
  }
};
std::string checkpoint_name(Step step, int64_t attempt);
inline constexpr std::string_view kCheckpointPrefix = "step-";

/// Checkpoints in a folder, oldest first; none where there is no folder.
Result<std::vector<CheckpointName>> checkpoint_names(FileOps& files, const std::string& folder);

/// The newest valid checkpoint, and what was passed over on the way to it.
struct CheckpointSearch {
  struct Skipped {
    std::string folder;
    std::string reason;
  };
  std::optional<Checkpoint> newest;  ///< none: nothing valid is there
  std::vector<Skipped> skipped;      ///< newest first
};

/// Verifies checksums from the newest checkpoint on until one is sound. No folder, or none in it, is not an error.
Result<CheckpointSearch> newest_checkpoint(const std::shared_ptr<FileOps>& files, const std::string& folder);

/// The same for what somebody names: a run's folder, a folder of checkpoints, or a single checkpoint.
/// ErrorKind::missing or corrupt where nothing valid is there; the text says what was passed over.
Result<CheckpointSearch> find_checkpoint(const std::shared_ptr<FileOps>& files, const std::string& path);

struct CheckpointInfo {
  std::string folder;
  Step step = 0;
  int64_t epoch = 0;
  uint64_t bytes = 0;
  std::string error;  ///< empty: opened; checksums are looked at only by verify
};
/// Of what somebody names, as above; oldest first.
Result<std::vector<CheckpointInfo>> list_checkpoints(const std::shared_ptr<FileOps>& files, const std::string& path);
/// The same, every byte checked.
Result<std::vector<CheckpointInfo>> verify_checkpoints(const std::shared_ptr<FileOps>& files, const std::string& path);

}  // namespace troupe::ps
