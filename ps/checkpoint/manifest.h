#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/kernels/nn/gradient_source.h>
#include <troupe/ps/data/dealer.h>
#include <troupe/ps/param/loss_scale.h>

namespace troupe::ps {

/// Elements up to `end` (from the previous run's end, or 0) have had so many optimizer steps.
struct UpdateRun {
  int64_t end = 0;
  int64_t updates = 0;
  bool operator==(const UpdateRun&) const = default;
};

/// What a checkpoint is of, beside its tensors. Nothing in it depends on how many servers or workers there
/// were.
struct Manifest {
  static constexpr int kFormat = 1;  ///< raised when an older program could not read the folder any more

  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string digest;
  };

  Step step = 0;
  DealerState dealer;
  std::vector<LayerSpec> layers;
  std::vector<std::vector<UpdateRun>>
      updates;  ///< by layer; ascending ends, the last one is the layer's count
  std::string optimizer;
  std::vector<std::string> state_names;
  std::optional<LossScale> loss_scale;    ///< where it is dynamic
  std::map<std::string, double> metrics;  ///< for people who look; numbers that are not finite are left out
  std::vector<File> files;
};

/// JSON that carries a checksum of itself: `parse_manifest` takes the very bytes that `to_json` made, and
/// finds any other (ErrorKind::corrupt, naming `path`).
Result<std::string> to_json(const Manifest& manifest);
Result<Manifest> parse_manifest(const std::string& text, const std::string& path);

/// The layers, optimizer and state of a run that wants to go on from the checkpoint; says the first
/// difference.
Status check_fits(const Manifest& manifest, const std::vector<LayerSpec>& layers,
                  const std::string& optimizer, const std::vector<std::string>& state_names);

}  // namespace troupe::ps
