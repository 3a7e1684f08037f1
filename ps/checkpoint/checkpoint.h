#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/checkpoint/file_ops.h>
#include <troupe/ps/checkpoint/manifest.h>
#include <troupe/ps/checkpoint/safetensors.h>
#include <troupe/ps/messages.h>
#include <troupe/ps/param/layout.h>

/// One checkpoint is a folder of three files:
///
///   parameters.safetensors   whole tensors by ParamSpec name ("fc1.weight"), sorted
///   optimizer.safetensors    "fc1.weight/momentum", sorted; no tensors where the optimizer keeps no state
///   manifest.json            what it is of, and size and checksum of the other two
namespace troupe::ps {

/// What is saved. Borrows everything: it must stay unchanged until the save returns.
struct CheckpointContent {
  const Layout& layout;
  const std::vector<SliceState>& slices;  ///< of all servers, in any order
  Step step = 0;
  DealerState dealer;
  std::string optimizer;
  std::vector<std::string> state_names;
  std::map<std::string, double> metrics;
  std::optional<LossScale> loss_scale = {};  ///< where it is dynamic
};

/// Writes the three files into the existing, empty `folder`, each written through to the disk; returns their
/// bytes. The files are the same for any placement of the same values. Streams: no copy of a tensor is made.
Result<uint64_t> write_checkpoint(FileOps& files, const std::string& folder,
                                  const CheckpointContent& content);

/// A checkpoint opened for reading. Const calls are safe from any thread.
class Checkpoint {
 public:
  /// Reads the manifest and the files' headers, and checks that they agree; not the checksums of the tensors.
  static Result<Checkpoint> open(std::shared_ptr<FileOps> files, const std::string& folder);
  /// `open`, and every byte against its checksum.
  static Result<Checkpoint> open_verified(std::shared_ptr<FileOps> files, const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const SafetensorsFile& parameters() const { return parameters_; }

  /// A slice of any layout over the manifest's layers, with memory of its own.
  Result<SliceState> slice(const Slice& slice) const;
  uint64_t bytes() const;

 private:
  Checkpoint(std::string folder, Manifest manifest, SafetensorsFile parameters, SafetensorsFile optimizer);
  Status check_tensors() const;
  Status read_range(const SafetensorsFile& file, const std::string& suffix, const Slice& slice,
                    Tensor& out) const;

  std::string folder_;
  Manifest manifest_;
  SafetensorsFile parameters_, optimizer_;
};

}  // namespace troupe::ps
