#pragma once
#include <memory>
#include <string>

#include <troupe/ps/checkpoint/checkpoint_folder.h>

namespace troupe::ps {

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

  /// See newest_checkpoint.
  Result<CheckpointSearch> newest_valid() const;

 private:
  Result<std::string> unused_name(Step step) const;
  Status write_and_publish(const std::string& name, const CheckpointContent& content, Saved& saved);
  Status remove_leftovers();
  Status prune(const std::string& saved_name);

  std::shared_ptr<FileOps> files_;
  Options options_;
};

}  // namespace troupe::ps
