#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// The folder that holds everything a run leaves behind:
///
///     config.resolved.toml   every setting and where it came from
///     metrics.csv, metrics.jsonl
///     trace.json             what happened when, where metrics.trace is set; trace-node-N.json of other processes
///     log.txt
///     checkpoints/
///     journal/               while a run of several processes lasts: what its coordinator was told (journal_folder.h)
///     record/                where debug.record is set: what a replay needs (recording.h)
///     summary.json           written when the run ends, however it ends
class RunFolder {
 public:
  /// `parent`/NAME-STAMP, with -2, -3, ... behind it where that is taken; `stamp` is the time
  /// ("20261130-112906").
  static Result<RunFolder> create_under(const std::string& parent, const std::string& name, const std::string& stamp);
  /// Exactly `path`, which must not exist or be empty.
  static Result<RunFolder> create_at(const std::string& path);
  /// A run that is there already, to go on with.
  static Result<RunFolder> open(const std::string& path);

  /// Nothing was begun in it: removes what `create_...` made and all that was put there since. Leaves a folder that
  /// was opened as it is.
  void discard();

  std::string path() const { return path_.string(); }
  std::string config() const { return (path_ / "config.resolved.toml").string(); }
  std::string metrics_csv() const { return (path_ / "metrics.csv").string(); }
  std::string metrics_jsonl() const { return (path_ / "metrics.jsonl").string(); }
  std::string log() const { return (path_ / "log.txt").string(); }
  std::string checkpoints() const { return (path_ / "checkpoints").string(); }
  std::string summary() const { return (path_ / "summary.json").string(); }

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  static Result<RunFolder> prepare(const std::filesystem::path& path, std::vector<std::filesystem::path> made);
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< folders, outermost first
  bool opened_ = false;
};

/// Two folders in that of `run`, for whoever looks for them before it is opened.
std::string journal_folder(const std::string& run);
std::string record_folder(const std::string& run);

/// Replaces the file `path` by `text`: wholly or, on failure, not at all.
Status replace_file(const std::string& path, const std::string& text);

}  // namespace troupe::ps
