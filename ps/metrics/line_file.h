#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/kernels/base/file_descriptor.h>
#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// A text file that grows by whole lines, each one write(2), so that lines of several writers never mix and
/// a crash loses none that was written. A full disk leaves no half lines: what was begun is cut off again.
/// One owner, one thread at a time.
class LineFile {
 public:
  /// Opens `path` for appending; it is created if it is not there.
  static Result<LineFile> open(const std::string& path);

  /// False where the line could not be written; later ones may.
  bool append(std::string_view line);
  /// Lines that could not be written.
  int64_t failures() const { return failures_; }
  /// Nothing was written yet, by nobody.
  bool empty() const;

 private:
  explicit LineFile(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
  int64_t failures_ = 0;
};

}  // namespace troupe::ps
