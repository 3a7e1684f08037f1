#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/ps/checkpoint/checkpoint_folder.h>

namespace troupe::ps {

struct Exported {
  std::string folder;  ///< of the checkpoint
  Step step = 0;
  uint64_t bytes = 0;
  std::vector<CheckpointSearch::Skipped> skipped;
};

/// Writes the parameters of the newest valid checkpoint of `path` (see find_checkpoint), sorted by name and without
/// metadata, so that equal parameters give equal bytes. `file` appears whole or not at all.
Result<Exported> export_parameters(const std::shared_ptr<FileOps>& files, const std::string& path,
                                   const std::string& file);

}  // namespace troupe::ps
