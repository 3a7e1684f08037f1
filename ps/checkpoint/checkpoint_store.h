#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/ps/checkpoint/checkpoint.h>

namespace troupe::ps {

/// What was found in a folder of checkpoints: the newest valid one, and what was passed over on the way to
/// it.
struct CheckpointSearch {
  struct Skipped {
    std::string folder;
    std::string reason;
  };
  std::optional<Checkpoint> newest;  ///< none: nothing valid is there
  std::vector<Skipped> skipped;      ///< newest first
};

/// The checkpoints of one run: folders `step-00001234` (`step-00001234.2` when a resumed run reaches the step
/// of one that is there already) in `<run>/checkpoints`.
///
/// A save is wholly there or not at all, whenever the process is killed or the power fails: the files are
/// written and synced in `step-....tmp`, which is then renamed, and the folder synced. Only after that are
/// older checkpoints removed. What a killed save left behind is removed by the next one.
///
/// For one thread at a time, and one process.
class CheckpointStore {
 public:
  struct Options {
    std::string folder;
    int64_t keep = 3;  ///< newest ones that stay, at least 1
  };
  CheckpointStore(std::shared_ptr<FileOps> files, Options options);

  struct Saved {
    std::string folder;
    uint64_t bytes = 0;
    std::string warning;  ///< the new one is safe, but older ones could not be removed: why
  };
  /// Checkpoints of later steps are removed as well: they belong to a course that training has not taken.
  /// On failure the checkpoints that were there stay and the temporary folder goes; ErrorKind::exhausted: the
  /// disk is full.
  Result<Saved> save(const CheckpointContent& content);

  /// Verifies checksums from the newest checkpoint on until one is sound. No folder, or none in it, is not an
  /// error.
  Result<CheckpointSearch> newest_valid() const;

 private:
  Result<std::string> unused_name(Step step) const;
  Status write_and_publish(const std::string& name, const CheckpointContent& content, Saved& saved);
  Status remove_leftovers();
  Status prune(const std::string& saved_name);

  std::shared_ptr<FileOps> files_;
  Options options_;
};

/// For the command line. ------------------------------------------------------------------------------------

struct CheckpointInfo {
  std::string folder;
  Step step = 0;
  int64_t epoch = 0;
  uint64_t bytes = 0;
  std::string error;  ///< empty: opened; checksums are looked at only by verify
};
/// Checkpoints of a run folder, a folder of checkpoints, or a single checkpoint; oldest first.
Result<std::vector<CheckpointInfo>> list_checkpoints(std::shared_ptr<FileOps> files, const std::string& path);
/// The same, every byte checked.
Result<std::vector<CheckpointInfo>> verify_checkpoints(std::shared_ptr<FileOps> files,
                                                       const std::string& path);
/// The newest valid one. ErrorKind::missing where there is none; the text says what was passed over.
Result<CheckpointSearch> find_checkpoint(std::shared_ptr<FileOps> files, const std::string& path);

/// Writes the parameters of the newest valid checkpoint, sorted by name and without metadata, so that equal
/// parameters give equal bytes. `file` appears whole or not at all.
struct Exported {
  std::string folder;  ///< of the checkpoint
  Step step = 0;
  uint64_t bytes = 0;
  std::vector<CheckpointSearch::Skipped> skipped;
};
Result<Exported> export_parameters(std::shared_ptr<FileOps> files, const std::string& path,
                                   const std::string& file);

}  // namespace troupe::ps
