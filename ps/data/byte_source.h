#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::ps {

/// Reads a file of a data set from its beginning to its end; a file that begins with gzip's magic is inflated
/// on the way, whatever its name. Errors name the file. For one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  const std::string& path() const { return path_; }
  /// Bytes of the file itself.
  uint64_t file_bytes() const { return file_bytes_; }

  /// Bytes that are left: exactly, where the file is not compressed.
  virtual std::optional<uint64_t> exact_left() const = 0;
  /// More bytes than this cannot be left. What a header claims is compared with it before memory is taken;
  /// deflate makes at most 1032 bytes of one.
  virtual uint64_t at_most_left() const = 0;

  /// Up to out.size() bytes; fewer only at the end. ErrorKind::corrupt: damaged compressed data.
  virtual Result<size_t> read_some(std::span<uint8_t> out) = 0;

  /// All of `out`, which is `what` ("the header"); ErrorKind::corrupt where the file ends before.
  Status read(std::span<uint8_t> out, const std::string& what);
  /// ErrorKind::corrupt where anything follows.
  Status expect_end(uint64_t expected_bytes);

 protected:
  ByteSource(std::string path, uint64_t file_bytes) : path_(std::move(path)), file_bytes_(file_bytes) {}

 private:
  std::string path_;
  uint64_t file_bytes_;
};

/// ErrorKind::missing where there is no such file; a folder or an unreadable file is an error as well.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path);

}  // namespace troupe::ps
