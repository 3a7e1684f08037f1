#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// A file being written, from its beginning. Destroyed without `close` it is closed, its contents undefined.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// What was written so far survives a power cut once this has returned.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual uint64_t size() const = 0;
  /// All of `out` from `offset`; ErrorKind::corrupt where the file ends before.
  virtual Status read(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Everything that checkpoints ask of a file system, so that tests can fail any of it. Errors name the path:
/// ErrorKind::exhausted for a full disk or quota, missing where nothing is there, failed for the rest.
class FileOps {
 public:
  virtual ~FileOps() = default;

  /// A new, empty file; one of that name is replaced.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<InputFile>> open(const std::string& path) = 0;
  /// With its parents, all of which survive a power cut; one that is there already is fine.
  virtual Status make_folder(const std::string& path) = 0;
  /// Replaces a file of that name; of a folder, `to` must not exist.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Names that were created, renamed or removed in the folder survive a power cut once this has returned.
  virtual Status sync_folder(const std::string& path) = 0;
  virtual Status remove_file(const std::string& path) = 0;
  virtual Status remove_folder(const std::string& path) = 0;  ///< an empty one
  /// Names in a folder, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Result<uint64_t> free_bytes(const std::string& path) = 0;
};

/// The machine's own files. Stateless, safe from any thread.
std::shared_ptr<FileOps> make_posix_files();

/// A new file that holds `text`, written through to the disk; one of that name is replaced.
Status write_file(FileOps& files, const std::string& path, const std::string& text);
/// A folder of files without folders in it.
Status remove_with_files(FileOps& files, const std::string& folder);
/// "a/b" of "a" or "a/" and "b"; and "a" of "a/b", "." of "b".
std::string join_path(const std::string& folder, const std::string& name);
std::string parent_path(const std::string& path);

}  // namespace troupe::ps
