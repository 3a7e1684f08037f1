#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>
#include <troupe/ps/control/coordinator_core.h>
#include <troupe/ps/param/shard.h>

namespace troupe::ps {

/// The order of everything that a run's result depends on under asynchronous policies: who was dealt work, and
/// which pushes and reads each server took when. Data, seed and the steps at which policies change are the
/// config's; what a program changes while a run goes on (Cluster::change_policies) is not in it, nor are
/// actors that were lost and replaced: such a run cannot be repeated.
struct Recording {
  std::vector<CoordinatorCore::Dealt> dealt;
  std::vector<std::vector<Shard::Event>> events;  ///< by server
  bool operator==(const Recording&) const = default;
};

/// Writes a recording while it happens, into a folder with one file for the coordinator ("dealt") and one a
/// server ("server-0", ...). Each begins with 8 bytes of name and version; what follows are records of equal
/// size, little-endian:
///
///   dealt      u32 worker, u8 idle                                 5 bytes
///   server-N   u8 kind (0 push, 1 pull), u32 worker, u32 parcel, i64 step    17 bytes
///
/// and, written by `close`, u64 the number of records and 32 characters: the digest of everything before (Digest).
///
/// Each function may be called by one thread at a time (the coordinator's; that server's).
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(const std::string& folder, uint32_t servers);
  ~Recorder();
  void dealt(const CoordinatorCore::Dealt& dealt);
  void event(ServerId server, const Shard::Event& event);
  /// Everything is on disk, and the recording has its end; nothing may follow. A record that could not be written (a
  /// full disk) makes the recording useless: this says so.
  Status close();

 private:
  struct Files;
  explicit Recorder(std::unique_ptr<Files> files);
  std::unique_ptr<Files> files_;
};

/// Reads what a Recorder wrote and closed. A file that is missing, cut short anywhere, damaged or not a recording is an
/// error: a replay of half an order would wait for ever.
Result<Recording> read_recording(const std::string& folder, uint32_t servers);

}  // namespace troupe::ps
